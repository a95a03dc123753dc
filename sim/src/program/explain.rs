//! `lockstorm explain`.
use super::exit::Failure;
use super::plan_source::PlanArguments;
use clap::Args;
/// `explain`.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// The plan.
    #[command(flatten)]
    pub plan: PlanArguments,
}
/// x
pub fn explain(_arguments: &ExplainArguments) -> Result<u8, Failure> {
    Ok(0)
}
