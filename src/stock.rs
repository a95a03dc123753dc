//! The guarded stock and its fence.
