//! The kept plans: files under `seeds/` and what is expected of them.
