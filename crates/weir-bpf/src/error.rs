//! What is refused, and what fails.

use std::io;
use std::path::PathBuf;

use weir_ebpf::btf::BtfError;
use weir_ebpf::elf::ElfError;
use weir_rt::segment::MapError;
use weir_verifier::RejectionKind;

/// See the variants.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// More bytes than an object may have.
    #[error("{} has more than {most} bytes", path.display())]
    FileTooLarge {
        /// Which one.
        path: PathBuf,
        /// The limit.
        most: usize,
    },
    /// Something else about a file.
    #[error("{}: {error}", path.display())]
    InFile {
        /// Which one.
        path: PathBuf,
        /// What.
        error: Box<Error>,
    },
    /// It is no object that can be read.
    #[error(transparent)]
    Object(#[from] ElfError),
    /// The types of the kernel that programs are adapted to.
    #[error("the kernel's types: {0}")]
    Types(BtfError),
    /// Instructions have 8 bytes each.
    #[error("{0} bytes of instructions, which have 8 each")]
    RaggedInstructions(usize),
    /// No program of that name, or more than one and none named.
    #[error("{0}")]
    NoProgram(String),
    /// No map of that name.
    #[error("no map is named `{0}`")]
    NoMap(String),
    /// No variable of that name that the file describes.
    #[error("no variable is named `{0}`, or the file does not describe it (compile with -g)")]
    NoVariable(String),
    /// The program is of a kind that is not run here.
    #[error("{0}")]
    OtherContext(String),
    /// The verifier refuses it.
    #[error("{words}")]
    Rejected {
        /// Why, in a word.
        kind: RejectionKind,
        /// Why, with the instruction and its line in the source.
        words: String,
    },
    /// The JIT cannot compile it.
    #[error("{0}")]
    Jit(String),
    /// Machine code could not be put into memory.
    #[error("loading machine code: {0}")]
    Loading(io::Error),
    /// The maps need more than there may be.
    #[error("{0}")]
    Maps(String),
    /// Their memory could not be had.
    #[error("making the maps: {0}")]
    Memory(io::Error),
    /// An operation on a map.
    #[error(transparent)]
    Map(#[from] MapError),
    /// Records are in rings alone.
    #[error("map {0} is no ring")]
    NoRing(String),
    /// A ring whose writers do not wait for a reader.
    #[error("map {0} overwrites its records: none is taken out of it")]
    Overwrites(String),
    /// The data of a run does not suit the program.
    #[error("{0}")]
    Data(String),
    /// More data than a run may have.
    #[error("{0} bytes")]
    DataTooLarge(usize),
    /// A run went through more rounds of its loops than it was allowed to.
    #[error("the program's loops went through more than the {0} rounds that a run may")]
    Rounds(u32),
    /// The limit of a run's rounds is above the most that there is.
    #[error("a limit of {0} rounds; it is at most {max}", max = crate::ROUNDS_MAX)]
    RoundsLimit(u32),
    /// The program has a limit of rounds, and tail calls.
    #[error("a program with a limit of rounds makes no tail calls")]
    LimitedTailCalls,
    /// The checking interpreter found an access that was not claimed: a fault of the verifier.
    #[error("{0}")]
    Fault(String),
}
