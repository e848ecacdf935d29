"""Data frame, array or file <-> plain columns; the only room that knows data frames."""
