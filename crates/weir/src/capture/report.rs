//! What is said of a capture on standard error: where it filters, counts while it runs, and a line for each interface at the end.

use std::io::{self, IsTerminal as _};

use weir_capture::Tally;
use weir_capture::live::FilteredBy;
use weir_source::printable;

use crate::print::{tell, tell_text};

/// Says it.
pub(super) struct Reporter {
    is_quiet: bool,
    is_asked: bool,
    is_terminal: bool,
    /// A line is on the terminal that is written over.
    has_line: bool,
    /// Names of the interfaces whose packets the kernel filters.
    in_kernel: Vec<String>,
}

impl Reporter {
    pub(super) fn new(is_asked: bool, is_quiet: bool) -> Reporter {
        let is_terminal = io::stderr().is_terminal();
        Reporter { is_quiet, is_asked, is_terminal, has_line: false, in_kernel: Vec::new() }
    }

    /// An interface is captured. `by`: who filters its packets, if anybody does.
    pub(super) fn begins(&mut self, name: &str, by: Option<FilteredBy>) {
        if matches!(by, Some(FilteredBy::Kernel | FilteredBy::Both)) {
            self.in_kernel.push(name.to_owned());
        }
        self.says_who(
            name,
            match by {
                None => "no filter",
                Some(FilteredBy::Kernel) => "the kernel filters",
                Some(FilteredBy::Both) => "the kernel filters, and weir packets with a VLAN tag",
                Some(FilteredBy::Process) => "weir filters (the kernel cannot)",
            },
        );
    }

    /// The same of a port of an application, which filters by itself.
    pub(super) fn begins_in_application(&mut self, name: &str, has_filter: bool) {
        self.says_who(name, if has_filter { "the application filters" } else { "no filter" });
    }

    fn says_who(&self, name: &str, filters: &str) {
        if self.is_asked {
            tell!("weir: {}: {filters}", printable(name));
        }
    }

    /// Counts are shown while it runs.
    pub(super) fn is_live(&self) -> bool {
        !self.is_quiet && (self.is_asked || self.is_terminal)
    }

    pub(super) fn shows(&mut self, tallies: &[Tally]) {
        let shown: Vec<String> = tallies.iter().map(|tally| self.counts(tally)).collect();
        let line = shown.join("; ");
        if self.is_terminal {
            // To the line's beginning, and the rest of the line cleared.
            tell_text(&format!("\rweir: {line}\x1b[K"));
            self.has_line = true;
        } else {
            tell!("weir: {line}");
        }
    }

    /// A line for each interface.
    pub(super) fn end(&mut self, tallies: &[Tally]) {
        if self.is_quiet {
            return;
        }
        if self.has_line {
            tell_text("\r\x1b[K");
        }
        for tally in tallies {
            tell!("weir: {}", self.counts(tally));
        }
    }

    /// One more line at the end.
    pub(super) fn says(&self, text: &str) {
        if !self.is_quiet {
            tell!("weir: {text}");
        }
    }

    fn counts(&self, tally: &Tally) -> String {
        let captured = format!("{}: {} captured", printable(&tally.name), tally.kept);
        let filtered = match (tally.rejected, tally.counts.received, tally.counts.accepted) {
            // The source filters, and counts.
            (None, Some(received), Some(accepted)) => {
                format!(", {} filtered", received.saturating_sub(accepted))
            }
            // The kernel does not count what a filter rejects.
            _ if self.in_kernel.contains(&tally.name) => ", the kernel filtered".to_owned(),
            (Some(rejected), ..) => format!(", {rejected} filtered"),
            _ => String::new(),
        };
        format!("{captured}{filtered}, {} dropped", tally.dropped())
    }
}
