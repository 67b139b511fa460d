//! pcap: packet filters on weir's engines, beside libpcap's interpreter and programs in the kernel.
//!
//! In each round the program pcap-bench of the crate vm-bench compiles every filter, compares what all sides give for every packet of three
//! traces, and times them. All are nanoseconds of thread CPU time a packet, pinned to a CPU:
//! - `FILTER, TRACE`: the packets in the order in which they come, with all that a call takes. The kernel has no way to run this.
//! - `FILTER, TRACE, less empty`: 48 packets of the trace, each again and again (`BPF_PROG_TEST_RUN` does that in the kernel), less what the
//!   filter that keeps everything takes on the same side in the same round.
//! - `compile FILTER`: milliseconds from text to machine code; of libpcap, to a program that is optimised.
//!
//! Sides: weir (machine code), weir-interp, libpcap (bpf_filter on its own program), kernel (weir's eBPF in the kernel's JIT), kernel-cbpf
//! (libpcap's program, in eBPF instruction by instruction). A/A is weir once more.

use std::process::Command;

use anyhow::Result;

use crate::bench::Outcome;
use crate::bench::figures::{Figures, WEIR, rounded};
use crate::bench::plan::Plan;
use crate::bench::report::met;
use crate::bench::rounds::alternate;
use crate::bench::samples::Samples;
use crate::bench::statistics::{mean_ratios, median};
use crate::workspace;

/// Ends the cases that say what a filter takes alone.
const NET: &str = ", less empty";
/// What the project promises: at least so many times as fast as libpcap's interpreter, geometric mean.
const TIMES_LIBPCAP_MIN: f64 = 5.0;
/// And as the kernel's JIT, on each filter and trace.
const PEERS_IN_KERNEL: [&str; 2] = ["kernel", "kernel-cbpf"];
/// Nanoseconds that are no difference: two runs of one side differ by as much.
const SAME_NS: f64 = 0.5;
/// What a ratio counts at least: a sample less the empty filter's may be nothing, or below it.
const NS_COUNTED_MIN: f64 = 0.25;
/// Of 300 hosts: milliseconds to compile, nanoseconds to run.
const MANY: &str = "300 hosts";
const COMPILE_MS_MAX: f64 = 5.0;
const MANY_NS_MAX: f64 = 20.0;

pub(super) fn measure(plan: &Plan) -> Result<()> {
    let built = workspace::build("release", &["--package", "vm-bench", "--bin", "pcap-bench"])?;
    let program = built.join("pcap-bench");
    let mut run =
        |round: usize, _: &&str| Samples::of(Command::new(&program).args(["--turn", &round.to_string()]));
    let sides = ["pcap-bench"];
    alternate(plan, &sides, &mut run, &|rounds| {
        let mut figures = Samples::together(rounds.with(&sides).flat_map(|(_, runs)| runs));
        let bars = bars(&figures);
        for (peer, cases) in [("libpcap", NET), ("kernel", NET), ("kernel-cbpf", NET), ("libpcap", "")] {
            let ratios = means(&figures, peer, cases);
            figures.add(WEIR, &format!("{peer} ÷ weir{cases}"), "×", &ratios);
        }
        let title = format!("Packet filters, {} rounds", plan.rounds);
        Outcome { title, figures, bars, remarks: Vec::new() }
    })
}

/// Whether a case is of a filter on a trace: as it comes, or ([`NET`]) less the empty filter.
fn is_of(case: &str, cases: &str) -> bool {
    case.contains(", ")
        && !case.starts_with("compile")
        && !case.starts_with("empty")
        && case.ends_with(NET) == (cases == NET)
}

/// Round by round the geometric mean of a peer's time ÷ weir's over filters and traces.
fn means(figures: &Figures, peer: &str, cases: &str) -> Vec<f64> {
    let samples = |subject: &str, case: &str| Some(&*figures.get(subject, case)?.samples);
    let cases = figures.cases().into_iter().filter(|case| is_of(case, cases));
    let pairs = cases.filter_map(|case| Some((samples(peer, case)?, samples(WEIR, case)?)));
    mean_ratios(&pairs.collect::<Vec<_>>(), NS_COUNTED_MIN)
}

fn bars(figures: &Figures) -> Vec<String> {
    let found = |subject: &str, case: &str| Some(figures.get(subject, case)?.summary.median);
    let mut bars = Vec::new();
    let times = means(figures, "libpcap", NET);
    if !times.is_empty() {
        let found = median(&times);
        bars.push(format!(
            "bar: at least {TIMES_LIBPCAP_MIN} times as fast as libpcap, geometric mean, less empty: {}: {}",
            met(found >= TIMES_LIBPCAP_MIN),
            rounded(found)
        ));
    }
    for peer in PEERS_IN_KERNEL {
        let cases = figures.cases().into_iter().filter(|case| is_of(case, NET));
        let pairs = cases.filter_map(|case| Some((case, found(WEIR, case)?, found(peer, case)?)));
        let pairs: Vec<_> = pairs.collect();
        let slower: Vec<String> = pairs
            .iter()
            .filter(|(_, ours, theirs)| *ours > theirs + SAME_NS)
            .map(|(case, ours, theirs)| format!("; {case} {} ns, not {}", rounded(*ours), rounded(*theirs)))
            .collect();
        bars.push(format!(
            "bar: never slower than {peer} by more than {SAME_NS} ns, of {}: {}{}",
            pairs.len(),
            met(!pairs.is_empty() && slower.is_empty()),
            slower.concat()
        ));
    }
    if let Some(found) = found(WEIR, &format!("compile {MANY}")) {
        let is_met = met(found <= COMPILE_MS_MAX);
        bars.push(format!(
            "bar: {MANY} compile in at most {COMPILE_MS_MAX} ms: {is_met}: {}",
            rounded(found)
        ));
    }
    let runs = figures.cases().into_iter().filter(|case| case.starts_with(MANY) && is_of(case, ""));
    for (case, found) in runs.filter_map(|case| Some((case, found(WEIR, case)?))) {
        let is_met = met(found <= MANY_NS_MAX);
        bars.push(format!("bar: {case} in at most {MANY_NS_MAX} ns a packet: {is_met}: {}", rounded(found)));
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        let lines = [
            r#"{"group": "packet", "subject": "weir", "case": "tcp, web, less empty", "unit": "ns", "samples": [2]}"#,
            r#"{"group": "packet", "subject": "libpcap", "case": "tcp, web, less empty", "unit": "ns", "samples": [8]}"#,
            r#"{"group": "packet", "subject": "kernel", "case": "tcp, web, less empty", "unit": "ns", "samples": [1]}"#,
            r#"{"group": "packet", "subject": "weir", "case": "ip, web, less empty", "unit": "ns", "samples": [0.1]}"#,
            r#"{"group": "packet", "subject": "libpcap", "case": "ip, web, less empty", "unit": "ns", "samples": [4]}"#,
            r#"{"group": "trace", "subject": "weir", "case": "300 hosts, web", "unit": "ns", "samples": [30]}"#,
            r#"{"group": "compile", "subject": "weir", "case": "compile 300 hosts", "unit": "ms", "samples": [2]}"#,
            r#"{"missing": "kernel: ip: "}"#,
        ];
        let round = Samples::read(&lines.join("\n")).unwrap();
        let figures = Samples::together([&round, &Samples::default()].into_iter());
        assert_eq!(figures.missing, ["kernel: ip: "]);
        figures
    }

    #[test]
    fn means_are_geometric_over_filters_and_traces() {
        // 4, and 4 ÷ 0.25: what is below the resolution counts as that.
        let means_of = means(&figures(), "libpcap", NET);
        assert!(matches!(means_of[..], [mean] if (mean - 8.0).abs() < 1e-9), "{means_of:?}");
        assert!(means(&figures(), "libpcap", "").is_empty());
    }

    #[test]
    fn bars_are_said_for_what_was_measured() {
        let bars = bars(&figures()).join("\n");
        assert!(
            bars.contains("at least 5 times as fast as libpcap, geometric mean, less empty: met: 8.0"),
            "{bars}"
        );
        assert!(
            bars.contains(
                "kernel by more than 0.5 ns, of 1: NOT met; tcp, web, less empty 2.000 ns, not 1.000"
            ),
            "{bars}"
        );
        assert!(bars.contains("compile in at most 5 ms: met: 2.000"), "{bars}");
        assert!(bars.contains("300 hosts, web in at most 20 ns a packet: NOT met: 30.00"), "{bars}");
    }
}
