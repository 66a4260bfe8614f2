"""How a schedule is shown: :mod:`fadiff.analysis` gives the numbers, here they are drawn.

``html`` is the report, one page; ``figures`` are for papers; ``notebook`` is what a notebook displays;
``machine_drawing`` is a machine as text; ``layout`` says where layers stand in a picture.
"""
