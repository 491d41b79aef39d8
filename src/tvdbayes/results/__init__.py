"""What the draws say, and what needs the fit run again: chance, held-out rows, sensitivity."""
