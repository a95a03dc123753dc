//! `lockstorm` alone.
use super::exit::{self, Failure};
pub fn demonstrate() -> Result<u8, Failure> { Ok(exit::SAFE) }
