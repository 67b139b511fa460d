//! The command line of `weir bpf`: eBPF objects by hand.

use std::path::PathBuf;

use clap::{ArgGroup, Subcommand, ValueEnum};

#[derive(clap::Args, Debug)]
pub(crate) struct Bpf {
    #[command(subcommand)]
    pub(crate) command: BpfCommand,

    /// The types (BTF) that CO-RE relocations are answered from, raw or in an ELF file; by default those of this kernel
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) btf: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum BpfCommand {
    /// Print an object as assembly text, with its source lines
    Dis {
        /// An object (.bpf.o) or assembly text
        file: PathBuf,
    },
    /// Make an object of assembly text
    Asm {
        /// Assembly text, or an object
        file: PathBuf,
        /// Where the object goes
        #[arg(short = 'o', long = "output", value_name = "FILE.o")]
        output: PathBuf,
    },
    /// Say whether each program of an object is safe to run, and if not, why
    Verify {
        /// An object (.bpf.o) or assembly text
        file: PathBuf,
        /// Print what is known of each instruction
        #[arg(short = 'v', long = "verbose")]
        verbose: bool,
    },
    /// Verify and run one program, and print r0
    Run(Run),
    /// Compile a script to an object that libbpf and bpftool load
    Build(Build),
}

#[derive(clap::Args, Debug)]
#[command(group(ArgGroup::new("what").required(true).args(["file", "program_hex"])))]
pub(crate) struct Run {
    /// An object (.bpf.o) or assembly text
    pub(crate) file: Option<PathBuf>,

    /// Which program of the file, by its name; needed where there are several
    #[arg(long, value_name = "NAME", conflicts_with = "program_hex")]
    pub(crate) program: Option<String>,

    /// The program's instructions as hexadecimal digits; - reads them from standard input
    #[arg(long, value_name = "HEX|-")]
    pub(crate) program_hex: Option<String>,

    /// Memory that r1 points to (r2 has its length), as hexadecimal digits; for xdp, classifier and socket programs the packet,
    /// for those of probes the registers (pt_regs)
    #[arg(long, value_name = "HEX")]
    pub(crate) mem_hex: Option<String>,

    /// What runs the program; jit if nothing is said
    #[arg(long, value_enum)]
    pub(crate) engine: Option<Vm>,

    /// Run it so many times, and print the time of one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) repeat: Option<u64>,

    /// End a run whose loops that only helpers or may_goto bound (bpf_loop, bpf_for_each_map_elem) go through more rounds than this, in all
    #[arg(long, value_name = "N", conflicts_with = "unverified_checked")]
    pub(crate) max_rounds: Option<u32>,

    /// Run it without verification, in the interpreter that checks every access, for 100 million instructions at most
    #[arg(long)]
    pub(crate) unverified_checked: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Build {
    /// The script itself
    #[arg(short = 'e', value_name = "PROGRAM")]
    pub(crate) program: Option<String>,

    /// A script file (unless -e is given), then the script's parameters $1, $2, …
    #[arg(value_name = "FILE.bt|PARAM", required_unless_present = "program")]
    pub(crate) arguments: Vec<String>,

    /// Where the object goes
    #[arg(short = 'o', long = "output", value_name = "FILE.bpf.o")]
    pub(crate) output: PathBuf,
}

/// What runs a program by hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Vm {
    /// The interpreter; the one that checks every access where the program does what the other has not
    Interp,
    /// Machine code
    Jit,
    /// The kernel, through bpf(2) (BPF_PROG_TEST_RUN)
    Kernel,
}
