"""What is there to say about a schedule: pure functions of an evaluation, which return numbers and names.

Results are frozen dataclasses, ready for JSON. Memories go by their own names, in any number:

- ``breakdown``: where energy, time and words go; ``idle``: why multipliers have no work; ``transfers``: what moves
  between which memories;
- ``roofline``: what layers attain; ``timeline``: what runs when; ``occupancy``: what fills every memory meanwhile;
- ``loop_nest``: the loops of a group, line by line; ``compare``: two schedules; ``search_trace``: how a search went.
"""
