//! A storm: a plan set on a stage, run, judged.
