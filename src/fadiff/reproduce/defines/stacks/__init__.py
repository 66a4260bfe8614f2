"""Two- and three-layer stacks on a Gemmini: the trends of the paper's Figure 3."""
