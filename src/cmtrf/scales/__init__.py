"""Everything about one rating scale or a set of them, while the factors hold still."""
