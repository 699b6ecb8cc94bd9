"""Stage 3's wing: scores under several groupings of each graph's configurations."""
