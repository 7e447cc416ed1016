"""What an edge is worth: strengths, rivals, stability, delays."""
