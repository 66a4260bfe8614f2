"""What is there to say about a schedule.

Analyses are pure functions of an evaluation that return frozen dataclasses of numbers and names, ready for JSON:

- ``breakdown``: where energy, time and words go; ``flows``: words between levels; ``roofline``: what layers attain;
- ``timeline``: what runs when, and what fills L2 meanwhile; ``loop_nest``: the loops of a group, line by line;
- ``why_not``: why tensors go through DRAM; ``what_if``: how EDP answers to the machine;
- ``compare``: two schedules; ``search_trace``: how a search went; ``agreement``: what running a schedule shows.

``html``, ``figures`` and ``notebook`` draw them; ``layout`` says where layers stand in a picture.
"""
