"""CausalDynamics (Herdeanu et al. 2025): which variable drives which, in ten categories."""
