//! Faults: how each kind of a plan is applied, told and noticed.
