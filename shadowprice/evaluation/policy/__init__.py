"""Value of a policy at a budget, estimated from logs, and the gate that judges it."""
