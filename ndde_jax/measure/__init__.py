"""What an edge is worth: strengths, rivals, stability, delays, and who predicts whom first."""
