//! The command line of `weir capture`. Letters that tcpdump has mean what they mean there, but for the filter, which is -f.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ArgGroup;
use weir_capture::SNAPLEN_DEFAULT;
use weir_pcap_filter::Mode;

use crate::args::pcap::{Names, mode};
use crate::args::record::file_size;

const EXAMPLES: &str = "\
Examples:
  weir capture -i eth0 -f 'tcp port 80' -w web.pcapng
  weir capture -i eth0,eth1 -w ring.pcapng --rotate-size 100M --files 10
        files of 100 MiB each, of which the newest ten are kept
  weir capture -i any -s 96 -c 1000 -w - | weir pcap eval -r - -- 'ip6'
  weir capture -i eth0 -f 'port 53' --print       as tcpdump prints packets
  weir capture -i eth0 --stats                    count, and write nothing
  weir capture --dpdk rte:0 -f 'tcp port 80' -w web.pcapng
        in a DPDK application, at its port 0
  weir capture --dpdk rte --load --stats          the same in one that was started without the plugin
  weir capture -r a.pcap -r b.pcapng -f 'host 10.0.0.1' -w host.pcapng

Exit codes: 0 done; also after Ctrl-C or SIGTERM, and where the reader of a pipe has gone. 1 the filter, a file or an interface's name was
refused, 2 wrong usage, 3 the machine refused: rights, a full disk, an interface that went down. What was captured before can be read.";

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
#[command(group(ArgGroup::new("extcap").multiple(true).args(["extcap_interfaces", "extcap_interface"])))]
pub(crate) struct Capture {
    /// Capture at these interfaces, with a description of each in the file; `any` is all of them, in the form LINUX_SLL2
    #[arg(short = 'i', long = "interface", value_name = "IFACE", value_delimiter = ',', required_unless_present_any = ["files", "dpdk", "extcap"])]
    pub(crate) interfaces: Vec<String>,

    /// Read this capture file (pcapng or classic pcap, - for standard input) instead; may be repeated
    #[arg(short = 'r', long = "read", id = "files", value_name = "FILE", conflicts_with = "interfaces")]
    pub(crate) files: Vec<PathBuf>,

    /// Capture in a running DPDK application, which has loaded libweir_dpdk.so: its file prefix, and numbers or names of ports; without, all ports
    #[arg(long, value_name = "PREFIX[:PORT,...]", conflicts_with_all = ["interfaces", "files"])]
    pub(crate) dpdk: Option<String>,

    /// Have a DPDK application that has not loaded libweir_dpdk.so load it while it runs: this file, or the one beside weir
    #[arg(long, requires = "dpdk", value_name = "PLUGIN", num_args = 0..=1, require_equals = true)]
    pub(crate) load: Option<Option<PathBuf>>,

    /// Number packets that a DPDK application receives, so that they are known when it sends them; it writes into its packets
    #[arg(long, requires = "dpdk")]
    pub(crate) packet_ids: bool,

    /// Print how long packets took from being received to being sent, by queue: of those that have numbers, which --dpdk then gives them (as --packet-ids)
    #[arg(long, conflicts_with = "interfaces")]
    pub(crate) latency: bool,

    /// Keep only packets that this filter accepts, in the language of pcap-filter(7)
    #[arg(short = 'f', long = "filter", value_name = "EXPR")]
    pub(crate) filter: Option<String>,

    /// Write packets to this file as pcapng, or to standard output for -
    #[arg(short = 'w', long = "write", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Write names of addresses into the file, those of /etc/hosts and /etc/ethers, or --hosts and --ethers; DNS is not asked
    #[arg(long, requires = "output")]
    pub(crate) resolve: bool,

    /// Print packets in tcpdump's short form, by tcpdump or else tshark, one of which has to be installed
    #[arg(long)]
    pub(crate) print: bool,

    /// Say every second what came of each interface, also where standard error is no terminal; with neither -w nor --print, packets are only counted
    #[arg(long)]
    pub(crate) stats: bool,

    /// Say nothing but errors on standard error
    #[arg(short = 'q', long = "quiet", conflicts_with = "stats")]
    pub(crate) quiet: bool,

    /// Bytes that are kept of a packet at most; 0 is the default
    #[arg(short = 's', long = "snapshot-length", id = "snaplen", value_name = "SNAPLEN", default_value_t = SNAPLEN_DEFAULT,
          value_parser = clap::value_parser!(u32).range(..=SNAPLEN_DEFAULT as i64))]
    snaplen: u32,

    /// End after so many packets were kept
    #[arg(short = 'c', long = "count", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,

    /// Begin the next file after one has so many bytes: a number, with K, M or G
    #[arg(long, value_name = "SIZE", value_parser = file_size, requires = "output")]
    pub(crate) rotate_size: Option<u64>,

    /// Begin the next file after so long: a whole number with s, min, h or d
    #[arg(long, value_name = "TIME", value_parser = long_time, requires = "output")]
    pub(crate) rotate_time: Option<Duration>,

    /// Keep so many files, the newest; older ones are deleted
    #[arg(long = "files", id = "files_kept", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) files_kept: Option<u64>,

    /// Take packets to and from this machine alone: do not put interfaces into promiscuous mode
    #[arg(short = 'p', long = "no-promiscuous-mode")]
    pub(crate) is_not_promiscuous: bool,

    /// The kernel's buffer for each interface, or that for each queue of a DPDK application: a number, with K, M or G
    #[arg(short = 'B', long = "buffer-size", value_name = "SIZE", value_parser = file_size, default_value = "8M")]
    pub(crate) buffer: u64,

    /// The netmask of the network that packets come from, for `ip broadcast`: 255.255.255.0
    #[arg(long, value_name = "M")]
    netmask: Option<Ipv4Addr>,

    /// Whose meaning expressions have
    #[arg(long, value_parser = mode(), default_value = "scoped")]
    pub(crate) mode: Mode,

    #[command(flatten)]
    pub(crate) names: Names,

    #[command(flatten)]
    pub(crate) extcap: Extcap,
}

/// Wireshark's interface for programs that capture.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "For Wireshark (extcap)")]
pub(crate) struct Extcap {
    /// List the interfaces
    #[arg(long)]
    pub(crate) extcap_interfaces: bool,

    /// The interface that the others are about
    #[arg(long, value_name = "NAME", conflicts_with_all = ["interfaces", "files", "dpdk"])]
    pub(crate) extcap_interface: Option<String>,

    /// Print its link type
    #[arg(long, requires = "extcap_interface")]
    pub(crate) extcap_dlts: bool,

    /// Print what can be set for it
    #[arg(long, requires = "extcap_interface")]
    pub(crate) extcap_config: bool,

    /// Capture at it
    #[arg(long, requires = "extcap_interface", requires = "fifo")]
    pub(crate) capture: bool,

    /// Write to this pipe
    #[arg(long, value_name = "PIPE", requires = "capture")]
    pub(crate) fifo: Option<PathBuf>,

    /// The filter that Wireshark asks for; without --capture it is checked, and what is wrong with it printed
    #[arg(long, value_name = "EXPR", requires = "extcap_interface")]
    pub(crate) extcap_capture_filter: Option<String>,

    /// Wireshark's version, which changes nothing
    #[arg(long, value_name = "VERSION", num_args = 0..=1, require_equals = true)]
    pub(crate) extcap_version: Option<Option<String>>,
}

impl Capture {
    pub(crate) fn snaplen(&self) -> u32 {
        if self.snaplen == 0 { SNAPLEN_DEFAULT } else { self.snaplen }
    }

    pub(crate) fn netmask(&self) -> Option<u32> {
        self.netmask.map(u32::from)
    }
}

/// A whole number with its unit.
fn long_time(text: &str) -> Result<Duration, String> {
    let wanted = || "a whole number and s, min, h or d is wanted, from 1s to 365d".to_owned();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit_s: u64 = match unit {
        "s" => 1,
        "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wanted()),
    };
    let seconds = number.parse().ok().and_then(|number: u64| number.checked_mul(unit_s));
    seconds.filter(|s| (1..=365 * 86_400).contains(s)).map(Duration::from_secs).ok_or_else(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_numbers_with_units() {
        let seconds = ["1s", "90s", "5min", "2h", "365d"].map(|text| long_time(text).unwrap().as_secs());
        assert_eq!(seconds, [1, 90, 300, 7200, 31_536_000]);
        for wrong in ["", "5", "0s", "1.5h", "-1s", "s", "366d", "5 s", "5m", "99999999999999999999s"] {
            assert!(long_time(wrong).is_err(), "{wrong}");
        }
    }
}
