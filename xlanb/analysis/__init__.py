"""What is known of a module without changing it: reachability, calls, induction, cost."""
