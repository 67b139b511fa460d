//! A run on one engine, while its programs are attached: in the processes ([`processes`](mod@crate::processes)), or in the kernel ([`kernel`](mod@crate::kernel)).

use std::os::fd::BorrowedFd;
use std::time::Duration;

use weir_event::Schema;
use weir_report::Entry;

use crate::failure::Failure;

/// Driven by [`Running`](crate::Running).
pub(crate) trait Course {
    /// Does what there is to do; true once the run is over. `is_woken`: one of [`Course::watched`] is readable, or something of the caller's.
    fn poll(&mut self, is_woken: bool) -> Result<bool, Failure>;
    /// Descriptors that are readable when there is something to do.
    fn watched(&self) -> Vec<BorrowedFd<'_>>;
    /// How long until there is something that none of them says.
    fn until(&self) -> Duration;
    /// The run is to end.
    fn stop(&mut self);
    /// Programs that wait for a signal are to run.
    fn signalled(&mut self) -> Result<(), Failure>;
    /// A flight recorder is to write what is in its rings.
    fn snapshot(&mut self);
    /// How records and maps lie in bytes.
    fn schema(&self) -> &Schema;
    /// What a map of the script holds, by its name.
    fn entries(&self, map: &str) -> Option<Vec<Entry>>;
    /// Takes everything out, runs END, prints what is left: the exit code.
    fn end(&mut self) -> Result<u8, Failure>;
}
