"""Every table and figure of the paper's evaluation, one module each: `fadiff reproduce NAME`.

An experiment computes rows (CSV), draws a figure (PNG and SVG) and tells what it measured (Markdown).
"""
