//! The command line of `weir pcap`: packet filters by hand. Letters that tcpdump has mean what they mean there.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Subcommand, ValueEnum};
use weir_cbpf::text::Form;
use weir_pcap_filter::{LinkType, Mode, SNAPLEN_DEFAULT};

use crate::args::filter::Engine;

const EXAMPLES: &str = "\
Examples:
  weir pcap compile -d 'tcp port 80'             the classic BPF program, as tcpdump -d prints it
  weir pcap compile -y LINUX_SLL2 --emit asm ip6 machine code for another link type
  weir pcap check -y RAW 'ether host 1:2:3:4:5:6'
  weir pcap eval -r trace.pcapng -- 'udp and less 100'
  tcpdump -i eth0 -w - | weir pcap eval -r - -- arp";

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Pcap {
    #[command(subcommand)]
    pub(crate) command: PcapCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum PcapCommand {
    /// Print what a filter becomes: classic BPF, or another stage of its compilation
    Compile(Compile),
    /// Print what a filter returns for each packet of a capture file: how many bytes it keeps, 0 for none
    Eval(Eval),
    /// Say nothing if a filter compiles, else where and why it does not
    Check(Check),
    /// List link types: names for -y, numbers, what they are
    List,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Compile {
    #[command(flatten)]
    pub(crate) given: Given,

    /// What is printed
    #[arg(long, value_enum, value_name = "STAGE", default_value_t = Stage::Cbpf, conflicts_with = "dump")]
    pub(crate) emit: Stage,

    /// Print classic BPF: -d as text, -dd as initialisers in C, -ddd as decimal numbers with their count before them
    #[arg(short = 'd', action = ArgAction::Count)]
    pub(crate) dump: u8,

    #[command(flatten)]
    pub(crate) expression: Expression,
}

impl Compile {
    /// How classic BPF is printed.
    pub(crate) fn form(&self) -> Form {
        match self.dump {
            0 | 1 => Form::Disassembly,
            2 => Form::C,
            3.. => Form::Decimal,
        }
    }
}

#[derive(clap::Args, Debug)]
pub(crate) struct Eval {
    /// The capture file (pcapng or classic pcap), or - for standard input
    #[arg(short = 'r', long = "read", value_name = "FILE")]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) given: Given,

    /// Run this program of classic BPF instead of an expression: text as of tcpdump -d, -dd or -ddd, or the bytes of its
    /// instructions. It sees a packet as libpcap's interpreter shows it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["words", "file_of_expression", "link_type", "snaplen", "netmask"])]
    pub(crate) cbpf: Option<PathBuf>,

    /// What runs it
    #[arg(long, value_enum, default_value_t = Engine::Jit)]
    pub(crate) engine: Engine,

    #[command(flatten)]
    pub(crate) expression: Expression,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) given: Given,

    #[command(flatten)]
    pub(crate) expression: Expression,
}

/// The filter's text.
#[derive(clap::Args, Debug)]
pub(crate) struct Expression {
    /// Read the filter from this file, or - for standard input; what stands after # in a line is a comment
    #[arg(short = 'F', id = "file_of_expression", value_name = "FILE", conflicts_with = "words")]
    pub(crate) file: Option<PathBuf>,

    /// The filter, joined with blanks, after -- if it begins with a hyphen; without any, every packet is kept
    #[arg(id = "words", value_name = "EXPR")]
    pub(crate) words: Vec<String>,
}

/// What a filter is compiled for.
#[derive(clap::Args, Debug)]
pub(crate) struct Given {
    /// The link type of the packets, by name or number as `weir pcap list` has them. By default EN10MB, or what a capture file says
    #[arg(short = 'y', long = "linktype", id = "link_type", value_name = "DLT", value_parser = link_type)]
    pub(crate) link_type: Option<LinkType>,

    /// Bytes that are kept of a packet at most: what the filter returns; 0 is the default
    #[arg(short = 's', long = "snapshot-length", id = "snaplen", value_name = "SNAPLEN", default_value_t = SNAPLEN_DEFAULT)]
    snaplen: u32,

    /// The netmask of the network that packets come from, for `ip broadcast`: 255.255.255.0
    #[arg(long, value_name = "M")]
    netmask: Option<Ipv4Addr>,

    /// Whose meaning expressions have
    #[arg(long, value_parser = mode(), default_value = "compat")]
    pub(crate) mode: Mode,

    #[command(flatten)]
    pub(crate) names: Names,
}

impl Given {
    pub(crate) fn snaplen(&self) -> u32 {
        if self.snaplen == 0 { SNAPLEN_DEFAULT } else { self.snaplen }
    }

    pub(crate) fn netmask(&self) -> Option<u32> {
        self.netmask.map(u32::from)
    }
}

/// Where names in a filter are looked up.
#[derive(clap::Args, Debug)]
pub(crate) struct Names {
    /// Look for names of hosts in this file alone (hosts(5)), instead of asking the system's resolver
    #[arg(long, value_name = "FILE")]
    pub(crate) hosts: Option<PathBuf>,

    /// Look for names of hardware addresses in this file (ethers(5)) instead of /etc/ethers
    #[arg(long, value_name = "FILE")]
    pub(crate) ethers: Option<PathBuf>,

    /// Look for names of networks in this file (networks(5)) instead of /etc/networks
    #[arg(long, value_name = "FILE")]
    pub(crate) networks: Option<PathBuf>,
}

pub(super) fn mode() -> impl TypedValueParser<Value = Mode> {
    let compat = PossibleValue::new("compat").help("As libpcap has them");
    let scoped = PossibleValue::new("scoped")
        .help("Vlan and its like bind what they are joined with by `and`; `or` and `not` behave as in logic; IPv6 extension headers are seen through");
    let parser = PossibleValuesParser::from([compat, scoped]);
    parser.map(|name| if name == "scoped" { Mode::Scoped } else { Mode::Compat })
}

/// A stage whose text form can be printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Stage {
    /// The syntax tree
    Ast,
    /// The graph of tests
    Ir,
    /// The classic BPF program
    Cbpf,
    /// The eBPF program
    Ebpf,
    /// The machine code
    Asm,
}

fn link_type(text: &str) -> Result<LinkType, String> {
    LinkType::named(text).ok_or_else(|| "no such link type; `weir pcap list` has their names".to_owned())
}
