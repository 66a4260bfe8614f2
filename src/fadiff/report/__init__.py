"""What is there to say about a schedule, as plain values: its costs in detail, and how its execution agrees with them.

Everything here is a frozen dataclass of numbers and names whose fields are the keys of the command line's JSON.
"""
