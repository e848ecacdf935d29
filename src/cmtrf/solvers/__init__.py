"""How to move: each file is one method of the paper or of MATH.md; `drive.py` owns the loop."""
