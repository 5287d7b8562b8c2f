"""What is to be compared: the files that differ, the columns that meet, the rules that apply, and who does it."""
