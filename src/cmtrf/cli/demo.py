"""``cmtrf demo``: fit the ratings that the package ships, and show what came out."""

from __future__ import annotations

from itertools import zip_longest
from textwrap import fill
from typing import TYPE_CHECKING, Any

from cmtrf.cli.console import Debug, Json, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from cmtrf.estimators import CMTRF

SOURCE = "Food World Cup survey by FiveThirtyEight, CC BY 4.0, reshaped"
COLOURS = ("cyan", "yellow", "green", "magenta")
WIDEST, NARROWEST = 80, 40
ROOMY = 66  # columns from which on two lists stand side by side
SHOWN = 4  # items a person


def demo(as_json: Json = False, debug: Debug = False) -> None:
    """Fit the data in the package and show scales, who uses them, and recommendations.

    The data are ratings of 40 cuisines by people in the United States.
    """
    from cmtrf.datasets import load_demo
    from cmtrf.estimators import CMTRF

    ratings = load_demo()
    model = CMTRF(n_scales=4, rank=5, random_state=0).fit(ratings)
    result = describe(model, ratings)
    print_json(result) if as_json else show(result)


def describe(model: CMTRF, ratings: Any) -> dict[str, Any]:
    """Collect what is shown."""
    table = model.scales()
    n_levels = len(model.levels_)
    rated = ratings.join(model.user_scales().select("user", "scale"), on="user")
    scales = [
        {
            "scale": scale,
            "users": table["n_users"][scale * n_levels],
            "mean_rating": rated.filter(scale=scale)["rating"].mean(),
            "positions": positions,
        }
        for scale, positions in enumerate(model.scales_.tolist())
    ]
    busiest = max(scales[1:-1], key=lambda scale: scale["users"])["scale"]
    chosen = (0, busiest, len(scales) - 1)
    return {
        "data": SOURCE,
        "ratings": ratings.height,
        "users": len(model.users_),
        "items": len(model.items_),
        "levels": model.levels_.tolist(),
        "scales": scales,
        "people": [describe_person(model, rated.filter(scale=scale)) for scale in chosen],
    }


def describe_person(model: CMTRF, rated: Any) -> dict[str, Any]:
    """Pick somebody who used most of the levels and has much left to try; say what they like and may like."""

    def tells(user: int) -> tuple[int, int, int]:
        marks = rated.filter(user=user)["rating"]
        return -marks.n_unique(), int((marks == marks.max()).sum()), user

    counts = rated["user"].value_counts().rows()
    user = min((user for user, n in counts if 15 <= n <= 30), key=tells)
    best = rated.filter(user=user).sort("rating", "item", descending=[True, False])
    return {
        "user": user,
        "scale": best["scale"][0],
        "n_ratings": best.height,
        "rated_highest": best.head(SHOWN).select("item", "rating").rows(named=True),
        "recommended": model.recommend([user], n=SHOWN).select("item", "rating").rows(named=True),
    }


# For people -------------------------------------------------------------------------------------------------


def show(result: dict[str, Any]) -> None:
    """Print the result for people, at most 80 columns wide."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    console.width = width = max(NARROWEST, min(WIDEST, console.width))
    show_data(console, result)
    show_scales(console, result["scales"], result["levels"], width)
    show_people(console, result["people"], width)
    console.print("\nWith your own ratings: cmtrf fit ratings.csv -o model.cmtrf")


def show_data(console: Console, result: dict[str, Any]) -> None:
    """Say what the data are, and whose."""
    console.print(
        f"{result['ratings']:,} ratings from 1 to 5 of {result['items']} cuisines "
        f"by {result['users']:,} people in the United States"
    )
    console.print(f"Data: {result['data']}", style="dim")


def show_scales(console: Console, scales: list[dict[str, Any]], levels: list[float], width: int) -> None:
    """Print a line for each scale with its levels where they lie on an axis that all scales share."""
    from rich.text import Text

    every = [position for scale in scales for position in scale["positions"]]
    least, span = min(every), max(every) - min(every)
    left = "scale  people  mean  "
    room = width - len(left)
    ends = ("liked less", "liked more") if room > 30 else ("less", "more")
    console.print("\nFour scales, and where their levels 1 to 5 lie\n", style="bold")
    console.print(left + ends[0] + ends[1].rjust(room - len(ends[0])), style="dim")
    dash = "-" if console.options.ascii_only else "─"
    for scale, colour in zip(scales, COLOURS, strict=True):
        places = [round((position - least) / span * (room - 1)) for position in scale["positions"]]
        track = [dash if places[0] < k < places[-1] else " " for k in range(places[-1] + 1)]
        for level, place in zip(levels, places, strict=True):
            track[place] = f"{level:g}"
        line = Text(f"{scale['scale']:^5}  {scale['users']:>6,}  {scale['mean_rating']:>4.1f}  ")
        console.print(line.append("".join(track), style=colour))
    console.print("\n" + fill(explain(scales), width))


def explain(scales: list[dict[str, Any]]) -> str:
    """Say how to read the scales, by what two of them call the same position."""
    import numpy as np

    generous, strict = scales[0], scales[-1]
    same = np.interp(strict["positions"][2], generous["positions"], range(1, 6))
    return (
        "mean: of the ratings given. The axis is the model's score, one for all scales. Here they are "
        "straight lines that differ by a shift: "
        f"what scale {strict['scale']} calls 3, scale {generous['scale']} calls {same:.1f}."
    )


def show_people(console: Console, people: list[dict[str, Any]], width: int) -> None:
    """Print what people rated highest and what is recommended to them, side by side if there is room."""
    from rich.text import Text

    console.print("\nThree people: what they rated highest, and what the model recommends", style="bold")
    for person in people:
        about = f"person {person['user']}, on scale {person['scale']}, rated highest"
        left = [about, *(f"  {one['rating']}    {one['item']}" for one in person["rated_highest"])]
        right = ["predicted best of the rest"]
        right += [f"  {one['rating']:.1f}  {one['item']}" for one in person["recommended"]]
        lines = beside(left, right, width // 2) if width >= ROOMY else [*left, *right]
        console.print()
        for line in lines:
            console.print(Text(line, style="dim" if not line.startswith(" ") else ""))


def beside(left: list[str], right: list[str], width: int) -> list[str]:
    """Set two lists of lines side by side."""
    pairs = zip_longest(left, right, fillvalue="")
    return [(one.ljust(width) + other).rstrip() for one, other in pairs]
