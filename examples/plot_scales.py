"""
The scales of a survey
======================

People in the United States rate the cuisines of forty countries from 1 to 5. Where do the five levels lie for
them? A model with four types of users says so: one curve a type, with the number of people who use it.

Run by hand with a path, this program writes the picture there: ``python examples/plot_scales.py scales.png``.
"""

import sys

import matplotlib.pyplot as plt

import cmtrf.plots
from cmtrf import CMTRF
from cmtrf.datasets import load_demo

model = CMTRF(n_scales=4, rank=5, random_state=0).fit(load_demo())
figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
cmtrf.plots.scales(model, ax=axes)

# %%
# The numbers behind the picture:

model.scales()

# %%
if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=150)
