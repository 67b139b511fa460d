//! Placeholder.
/// Too long.
#[derive(Debug)]
pub struct TooLong;
