//! Who does what next: task, plan, strategies, and the checks that prove a plan.
