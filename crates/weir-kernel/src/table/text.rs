//! The functions on a table, as assembly text.
//!
//! What stands for a helper takes what that takes: the key's address in r2, of the value in r3, flags in r4; r1, the map, is not looked at. It calls a
//! global function, which the kernel's verifier looks at by itself, once. That has `bpf_loop` take the steps of the walk, so that the verifier looks
//! at one of them, and does not follow each way through all.
//!
//! A step has what lasts from one to the next in r6 ([`walk`]); the link that leads to where it is (a bucket's head or a node, whose link is its first
//! word) in r7, that link's word in r8, the node in r9. It returns 1 when all is done.

use std::fmt::Write as _;

use nix::libc;
use weir_ebpf::btf::Argument;
use weir_ebpf::helper;
use weir_ebpf::map::Table;

use super::{Operation, Tables};

/// Steps of a walk, restarts included: chains have one node or two.
const STEPS: u32 = 64;
/// Attempts to take a node off a list or to give one back, which others do at the same time.
const TRIES: u32 = 32;

/// Bits of a link's word, offsets and hash are those of weir-rt's `c/hash.h` and `c/weir.h`; its tests hold both to one model on one memory.
const INDEX: u64 = 0x1ff_ffff;
const DELETED: u64 = 1 << 25;
const REPLACED: u64 = 1 << 26;
const VERSION_SHIFT: u32 = 27;

/// Offsets in the control block, and in a node.
mod at {
    pub(super) const FREE: u64 = 0;
    pub(super) const SPARE: u64 = 64;
    pub(super) const FRESH: u64 = 128;
    pub(super) const FRESH_SPARE: u64 = 136;
    pub(super) const CONTENDED: u64 = 200;
    pub(super) const CORRUPT: u64 = 216;
    pub(super) const VALUE: u32 = 8;
    pub(super) const HASH: u32 = 16;
    pub(super) const KEY: u32 = 24;
}

/// Offsets in what lasts from one step to the next.
mod walk {
    pub(super) const KEY: u32 = 0;
    pub(super) const HASH: u32 = 8;
    /// Where the link is in the array; 0: the walk begins, or begins again.
    pub(super) const LINK: u32 = 16;
    pub(super) const WORD: u32 = 24;
    /// The word of the bucket's head, as the walk saw it.
    pub(super) const HEAD: u32 = 32;
    /// The link is the bucket's head.
    pub(super) const IS_HEAD: u32 = 40;
    /// 1: all is done, and this is what it came to.
    pub(super) const IS_DONE: u32 = 48;
    pub(super) const RESULT: u32 = 56;
    pub(super) const VALUE: u32 = 64;
    pub(super) const FLAGS: u32 = 72;
    /// A node for a new key, as its index and one; 0: none was taken.
    pub(super) const NEW: u32 = 80;
    pub(super) const BYTES: u32 = 88;
}

/// Below r10, in a step.
mod slot {
    /// The link of a node that is replaced.
    pub(super) const WORD: u32 = 8;
    /// The word that a node is marked with.
    pub(super) const MARKED: u32 = 16;
    /// A node that replaces another, as its index and one.
    pub(super) const SPARE: u32 = 24;
}

/// Functions as text, and what arguments the global ones take.
pub(super) struct Functions {
    /// A program that begins with a call of each function that is wanted, and of each global one, followed by the functions.
    pub(super) text: String,
    pub(super) global: Vec<Vec<Argument>>,
}

pub(super) fn of(tables: &Tables, wanted: &[(usize, Operation)]) -> Functions {
    let mut calls: String =
        wanted.iter().map(|(table, operation)| format!("call {}\n", caller(*table, *operation))).collect();
    let (mut functions, mut global) = (String::new(), Vec::new());
    let mut add = |name: &str, body: String, arguments: Vec<Argument>| {
        let _ = writeln!(calls, "call {name}");
        let _ = write!(functions, "{name}:\n{body}");
        global.push(arguments);
    };
    let mut callers = String::new();
    let mut steps = String::new();
    for (number, table) in tables.tables.iter().enumerate() {
        let operations: Vec<Operation> =
            wanted.iter().filter(|(of, _)| *of == number).map(|(_, operation)| *operation).collect();
        let function = |name: &str| Function { table, number, name: format!("t{number}_{name}") };
        let key = Argument::Memory { bytes: table.key_bytes };
        for operation in &operations {
            let (called, name) = (function(called_name(*operation)), caller(number, *operation));
            let arguments = match operation {
                Operation::Lookup | Operation::Delete => vec![key],
                Operation::Update => vec![key, Argument::Memory { bytes: 8 }, Argument::Number],
            };
            callers += &Function { name, ..called.clone() }.caller(*operation, &called.name);
            steps += &called.step(*operation);
            add(&called.name, called.walk(*operation), arguments);
        }
        if !operations.is_empty() {
            let function = function("release");
            add(&function.name, function.release(), vec![Argument::Number; 2]);
        }
        if operations.contains(&Operation::Update) {
            let function = function("take");
            add(&function.name, function.take(), vec![Argument::Number]);
        }
    }
    let text = format!(
        "map .in_kernel array key 4 value {} entries 1\nprogram \"functions\" probe\n{calls}{callers}{steps}{functions}",
        tables.bytes
    );
    Functions { text, global }
}

/// The function that stands for a helper.
fn caller(table: usize, operation: Operation) -> String {
    let operation = match operation {
        Operation::Lookup => "lookup",
        Operation::Update => "update",
        Operation::Delete => "delete",
    };
    format!("t{table}_{operation}")
}

/// The global function that it calls, without the number of the table.
fn called_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Lookup => "find",
        Operation::Update => "put",
        Operation::Delete => "remove",
    }
}

/// Where a look at a node leads that is not the one.
struct Otherwise<'a> {
    /// It is none of the table's.
    corrupt: &'a str,
    /// The chain has changed.
    changed: &'a str,
    /// It is marked.
    gone: &'a str,
    /// It has another key.
    next: &'a str,
}

#[derive(Clone)]
struct Function<'a> {
    table: &'a Table,
    number: usize,
    /// What its labels begin with.
    name: String,
}

impl Function<'_> {
    /// Puts the helper's arguments where `called` has them, and makes its answer the helper's.
    fn caller(&self, operation: Operation, called: &str) -> String {
        let name = &self.name;
        match operation {
            Operation::Lookup => format!(
                "{name}:\nr1 = r2\ncall {called}\n{node}r0 += {VALUE}\nexit\n{name}_absent:\nr0 = 0\nexit\n",
                node = self.node("r1", "r0", "absent") + "r0 = r1\n",
                VALUE = at::VALUE,
            ),
            Operation::Update => format!("{name}:\nr1 = r2\nr2 = r3\nr3 = r4\ncall {called}\nexit\n"),
            Operation::Delete => format!("{name}:\nr1 = r2\ncall {called}\nexit\n"),
        }
    }

    /// Has steps taken until one is the last. r1: the key; of an update also r2: the value, r3: 1 if the key is not to be there. What the last step came
    /// to: of a look-up the index of the node and one, or 0; else 0 or an error.
    fn walk(&self, operation: Operation) -> String {
        let Function { name, number, .. } = self;
        let slot = |at: u32| walk::BYTES - at;
        let gave_up = if operation == Operation::Lookup { 0 } else { -libc::EBUSY };
        let (mut arguments, mut first, mut taken) = (String::new(), String::new(), String::new());
        // Programs count themselves what an update did not do.
        let mut counted = self.count(at::CONTENDED);
        match operation {
            Operation::Lookup => first = self.find_first(),
            Operation::Delete => {}
            Operation::Update => {
                arguments = format!(
                    "if r2 == 0 goto {name}_null\n*(u64 *)(r10 - {}) = r2\n*(u64 *)(r10 - {}) = r3\n",
                    slot(walk::VALUE),
                    slot(walk::FLAGS)
                );
                // A node that was taken in vain: the key was there after all.
                taken = format!(
                    "r1 = *(u64 *)(r10 - {})\nif r1 == 0 goto {name}_exit\nr2 = 0\ncall t{number}_release\n{name}_exit:\n",
                    slot(walk::NEW)
                );
                counted.clear();
            }
        }
        let zeroed =
            [walk::LINK, walk::WORD, walk::HEAD, walk::IS_HEAD, walk::IS_DONE, walk::RESULT, walk::NEW];
        let zeroed: String =
            zeroed.iter().map(|at| format!("*(u64 *)(r10 - {}) = r1\n", slot(*at))).collect();
        format!(
            "if r1 == 0 goto {name}_null\nr6 = r1\n*(u64 *)(r10 - {KEY}) = r1\n{arguments}\
             {hash}*(u64 *)(r10 - {HASH}) = r0\n{first}r1 = 0\n{zeroed}\
             r1 = {STEPS}\nr2 = {name}_step ll\nr3 = r10\nr3 += -{BYTES}\nr4 = 0\ncall {LOOP}\n\
             r7 = *(u64 *)(r10 - {RESULT})\nr1 = *(u64 *)(r10 - {IS_DONE})\nif r1 != 0 goto {name}_walked\n{counted}r7 = {gave_up}\n\
             {name}_walked:\n{taken}r0 = r7\nexit\n\
             {name}_null:\nr0 = {gave_up}\nexit\n",
            KEY = slot(walk::KEY),
            HASH = slot(walk::HASH),
            RESULT = slot(walk::RESULT),
            IS_DONE = slot(walk::IS_DONE),
            BYTES = walk::BYTES,
            LOOP = helper::LOOP,
            hash = self.hash(),
        )
    }

    /// A look-up whose key is the first one of its chain, as most are, or whose chain is empty: it needs no walk (7 ns instead of 12). r0: the hash.
    fn find_first(&self) -> String {
        let Function { name, .. } = self;
        format!(
            "{bucket}r8 = *(u64 *)(r7 + 0)\nr0 = r8\nr0 &= {INDEX}\nif r0 == 0 goto {name}_exit\n\
             {look}\
             {name}_exit:\nexit\n\
             {name}_walk:\n",
            bucket = self.bucket("r7", "r0"),
            look =
                self.look("r6", &Otherwise { corrupt: "walk", changed: "walk", gone: "walk", next: "walk" }),
        )
    }

    /// Goes on if the node that r8 leads to, which is not 0 and was read at r7, has the key at this address and is in its chain: it is in r9 then, and
    /// its link in r2. r0, r6 and r7 stay.
    fn look(&self, key: &str, otherwise: &Otherwise<'_>) -> String {
        let name = &self.name;
        let Otherwise { corrupt, changed, gone, next } = otherwise;
        format!(
            "r3 = r8\nr3 &= {INDEX}\n{node}r2 = *(u64 *)(r9 + 0)\n\
             r1 = *(u64 *)(r7 + 0)\nif r1 != r8 goto {name}_{changed}\n\
             r1 = r2\nr1 &= {marks}\nif r1 != 0 goto {name}_{gone}\n{compared}\
             r3 = *(u64 *)(r9 + 0)\nif r3 != r2 goto {name}_{changed}\n",
            node = self.node("r9", "r3", corrupt),
            marks = DELETED | REPLACED,
            compared = self.compare(key, next),
        )
    }

    /// Goes to `other` if the node in r9 has another key than the one at this address.
    fn compare(&self, key: &str, other: &str) -> String {
        let name = &self.name;
        let word = |word: u32| {
            let (in_node, in_key) = (at::KEY + 8 * word, 8 * word);
            format!(
                "r3 = *(u64 *)(r9 + {in_node})\nr4 = *(u64 *)({key} + {in_key})\nif r3 != r4 goto {name}_{other}\n"
            )
        };
        (0..self.table.key_bytes / 8).map(word).collect()
    }

    /// One step of a walk, and what is done where it ends.
    fn step(&self, operation: Operation) -> String {
        let Function { name, number, table } = self;
        let (found, absent) = match operation {
            Operation::Lookup => (format!("r1 = r8\nr1 &= {INDEX}\ngoto {name}_done\n"), done(name, 0)),
            Operation::Update => (self.replace(), self.insert()),
            Operation::Delete => (self.remove(), done(name, -libc::ENOENT)),
        };
        format!(
            "{name}_step:\n\
             r6 = r2\nr8 = *(u64 *)(r6 + {WORD})\nr1 = *(u64 *)(r6 + {LINK})\nif r1 != 0 goto {name}_go\n\
             r2 = *(u64 *)(r6 + {HASH})\n{bucket}r2 += {buckets_offset}\n\
             r8 = *(u64 *)(r7 + 0)\n*(u64 *)(r6 + {LINK}) = r2\n*(u64 *)(r6 + {HEAD}) = r8\n*(u64 *)(r6 + {WORD}) = r8\n\
             r1 = 1\n*(u64 *)(r6 + {IS_HEAD}) = r1\ngoto {name}_here\n\
             {name}_go:\n\
             if r1 > {last_link} goto {name}_corrupt\nr1 >>= 3\nr1 <<= 3\nr7 = {array}\nr7 += r1\n\
             {name}_here:\n\
             r3 = r8\nr3 &= {INDEX}\nif r3 == 0 goto {name}_end\nr5 = *(u64 *)(r6 + {KEY})\n\
             {look}{found}\
             {name}_next:\n\
             r1 = r8\nr1 &= {INDEX}\nr1 += -1\nr1 *= {node_stride}\nr1 += {nodes_offset}\n\
             *(u64 *)(r6 + {LINK}) = r1\n*(u64 *)(r6 + {WORD}) = r2\n\
             r1 = 0\n*(u64 *)(r6 + {IS_HEAD}) = r1\nr0 = 0\nexit\n\
             {name}_gone:\n\
             ; A marked node: the walk takes it out of the chain, and goes on from the same link.\n\
             r3 = r8\n{past}r0 = r8\nr0 = cmpxchg_64(r7 + 0x0, r0, r3)\nif r0 != r8 goto {name}_again\n\
             *(u64 *)(r6 + {WORD}) = r3\n\
             r1 = *(u64 *)(r6 + {IS_HEAD})\nif r1 == 0 goto {name}_passed\n*(u64 *)(r6 + {HEAD}) = r3\n\
             {name}_passed:\n\
             r1 = r8\nr1 &= {INDEX}\ncall t{number}_release\nr0 = 0\nexit\n\
             {name}_end:\n\
             r3 = *(u64 *)(r7 + 0)\nif r3 != r8 goto {name}_again\n\
             {absent}\
             {name}_corrupt:\n{corrupt}\
             {name}_again:\nr1 = 0\n*(u64 *)(r6 + {LINK}) = r1\nr0 = 0\nexit\n\
             {name}_done:\n*(u64 *)(r6 + {RESULT}) = r1\nr1 = 1\n*(u64 *)(r6 + {IS_DONE}) = r1\nr0 = 1\nexit\n",
            KEY = walk::KEY,
            WORD = walk::WORD,
            LINK = walk::LINK,
            HASH = walk::HASH,
            HEAD = walk::HEAD,
            IS_HEAD = walk::IS_HEAD,
            RESULT = walk::RESULT,
            IS_DONE = walk::IS_DONE,
            bucket = self.bucket("r7", "r2"),
            buckets_offset = table.buckets,
            nodes_offset = table.nodes,
            node_stride = table.node_stride,
            last_link = table.nodes + u64::from(table.node_count) * u64::from(table.node_stride) - 8,
            array = address(0),
            look = self
                .look("r5", &Otherwise { corrupt: "corrupt", changed: "again", gone: "gone", next: "next" }),
            past = link_to("r3", "r2"),
            corrupt = self.count(at::CORRUPT),
        )
    }

    /// What a deletion does with the node in r9, whose link is in r2.
    fn remove(&self) -> String {
        let Function { name, .. } = self;
        format!(
            "r1 = r2\n{marked}r1 |= {DELETED}\n*(u64 *)(r10 - {MARKED}) = r1\n\
             r0 = r2\nr0 = cmpxchg_64(r9 + 0x0, r0, r1)\nif r0 != r2 goto {name}_again\n\
             {unlink}{done}",
            MARKED = slot::MARKED,
            marked = link_to("r1", "r2"),
            unlink = self.unlink(),
            done = done(name, 0),
        )
    }

    /// The same for an update of a key that is there.
    fn replace(&self) -> String {
        let Function { name, number, .. } = self;
        format!(
            "*(u64 *)(r10 - {WORD}) = r2\nr1 = *(u64 *)(r6 + {FLAGS})\nif r1 == 1 goto {name}_exists\n\
             r1 = 1\ncall t{number}_take\nif r0 == 0 goto {name}_busy\n*(u64 *)(r10 - {SPARE}) = r0\n\
             r3 = r0\nr4 = *(u64 *)(r10 - {WORD})\n{fill}\
             r2 = *(u64 *)(r10 - {WORD})\nr1 = r2\nr3 = *(u64 *)(r10 - {SPARE})\n{marked}r1 |= {REPLACED}\n\
             *(u64 *)(r10 - {MARKED}) = r1\nr0 = r2\nr0 = cmpxchg_64(r9 + 0x0, r0, r1)\nif r0 == r2 goto {name}_replaced\n\
             r1 = *(u64 *)(r10 - {SPARE})\nr2 = {REPLACED}\ncall t{number}_release\ngoto {name}_again\n\
             {name}_replaced:\n{unlink}{done}\
             {name}_exists:\n{exists}\
             {name}_busy:\n{busy}",
            FLAGS = walk::FLAGS,
            WORD = slot::WORD,
            SPARE = slot::SPARE,
            MARKED = slot::MARKED,
            fill = self.fill(),
            marked = link_to("r1", "r3"),
            unlink = self.unlink(),
            done = done(name, 0),
            exists = done(name, -libc::EEXIST),
            busy = done(name, -libc::EBUSY),
        )
    }

    /// What an update does where the key is not.
    fn insert(&self) -> String {
        let Function { name, number, .. } = self;
        format!(
            "r3 = *(u64 *)(r6 + {NEW})\nif r3 != 0 goto {name}_have\n\
             r1 = 0\ncall t{number}_take\nif r0 == 0 goto {name}_full\n*(u64 *)(r6 + {NEW}) = r0\nr3 = r0\n\
             {name}_have:\n\
             r4 = *(u64 *)(r6 + {HEAD})\n{fill}\
             r2 = *(u64 *)(r6 + {HEAD})\nr1 = r2\nr3 = *(u64 *)(r6 + {NEW})\n{linked}\
             r4 = *(u64 *)(r6 + {HASH})\n{bucket}\
             r0 = r2\nr0 = cmpxchg_64(r5 + 0x0, r0, r1)\nif r0 != r2 goto {name}_again\n\
             r1 = 0\n*(u64 *)(r6 + {NEW}) = r1\ngoto {name}_done\n\
             {name}_full:\n{full}",
            NEW = walk::NEW,
            HEAD = walk::HEAD,
            HASH = walk::HASH,
            bucket = self.bucket("r5", "r4"),
            fill = self.fill(),
            linked = link_to("r1", "r3"),
            full = done(name, -libc::E2BIG),
        )
    }

    /// Fills the node whose index and one is in r3, which nobody else can see, so that it leads to where the word in r4 leads.
    fn fill(&self) -> String {
        let mut text = self.node("r5", "r3", "corrupt");
        text += &format!("r1 = *(u64 *)(r5 + 0)\n{}*(u64 *)(r5 + 0) = r1\n", link_to("r1", "r4"));
        let _ = write!(text, "r1 = *(u64 *)(r6 + {})\n*(u64 *)(r5 + {}) = r1\n", walk::HASH, at::HASH);
        let _ = writeln!(text, "r2 = *(u64 *)(r6 + {})", walk::KEY);
        for word in 0..self.table.key_bytes / 8 {
            let to = at::KEY + 8 * word;
            let _ = write!(text, "r1 = *(u64 *)(r2 + {})\n*(u64 *)(r5 + {to}) = r1\n", 8 * word);
        }
        let _ = write!(
            text,
            "r2 = *(u64 *)(r6 + {})\nr1 = *(u64 *)(r2 + 0)\n*(u64 *)(r5 + {}) = r1\n",
            walk::VALUE,
            at::VALUE
        );
        text
    }

    /// Leaves the hash of the key in r6 in r0: `hash_bytes` of weir-rt's `c/hash.h`.
    fn hash(&self) -> String {
        let Table { key_bytes, seed, .. } = *self.table;
        let words = key_bytes / 8;
        let mut text = format!("r5 = 0x9e3779b97f4a7c15 ll\nr0 = {:#x} ll\n", seed ^ u64::from(key_bytes));
        let mix = |text: &mut String, lane: &str, word: u32| {
            let _ = write!(text, "r1 = *(u64 *)(r6 + {})\n{lane} ^= r1\n{lane} *= r5\n", 8 * word);
            let _ = write!(text, "r1 = {lane}\nr1 >>= 32\n{lane} ^= r1\n");
        };
        let fours = words / 4;
        if fours > 0 {
            text += "r2 = r0\nr2 += 1\nr3 = r0\nr3 += 2\nr4 = r0\nr4 += 3\n";
        }
        for four in 0..fours {
            for (word, lane) in ["r0", "r2", "r3", "r4"].into_iter().enumerate() {
                mix(&mut text, lane, 4 * four + word as u32);
            }
        }
        if fours > 0 {
            text += "r2 *= 3\nr3 *= 5\nr4 *= 7\nr2 ^= r3\nr2 ^= r4\nr0 ^= r2\n";
        }
        (4 * fours..words).for_each(|word| mix(&mut text, "r0", word));
        let _ = write!(
            text,
            "r5 = 0xd6e8feb86659fd93 ll\nr0 *= r5\nr1 = r0\nr1 >>= 32\nr0 ^= r1\nr0 <<= 1\nr0 >>= 1\n"
        );
        text
    }

    /// After the node in r9 was marked: takes it out of its chain. If the chain has changed, whoever passes it does.
    fn unlink(&self) -> String {
        let Function { name, number, .. } = self;
        format!(
            "r2 = *(u64 *)(r10 - {MARKED})\nr1 = r8\n{past}r0 = r8\nr0 = cmpxchg_64(r7 + 0x0, r0, r1)\nif r0 != r8 goto {name}_left\n\
             r1 = r8\nr1 &= {INDEX}\nr2 = *(u64 *)(r10 - {MARKED})\ncall t{number}_release\n\
             {name}_left:\n",
            MARKED = slot::MARKED,
            past = link_to("r1", "r2"),
        )
    }

    /// Gives a node that is in no chain back to the list that it is of. r1: its index and one, r2: its last word.
    fn release(&self) -> String {
        let Function { name, table, .. } = self;
        format!(
            "r7 = r1\n{node}\
             r8 = {free}\nr2 &= {REPLACED}\nif r2 == 0 goto {name}_put\nr8 = {spare}\n\
             {name}_put:\nr9 = {TRIES}\n\
             {name}_again:\n\
             if r9 == 0 goto {name}_lost\nr9 += -1\n\
             r5 = *(u64 *)(r8 + 0)\nr2 = *(u64 *)(r6 + 0)\n{next}*(u64 *)(r6 + 0) = r2\n\
             r4 = r5\n{head}r0 = r5\nr0 = cmpxchg_64(r8 + 0x0, r0, r4)\nif r0 != r5 goto {name}_again\n\
             r0 = 0\nexit\n\
             {name}_lost:\n{contended}r0 = 0\nexit\n\
             {name}_corrupt:\n{corrupt}r0 = 0\nexit\n",
            node = self.node("r6", "r1", "corrupt"),
            free = address(table.control + at::FREE),
            spare = address(table.control + at::SPARE),
            next = link_to("r2", "r5"),
            head = link_to("r4", "r7"),
            contended = self.count(at::CONTENDED),
            corrupt = self.count(at::CORRUPT),
        )
    }

    /// A node: a spare one if r1 is not 0, from its list or one that was never used. Its index and one, or 0.
    fn take(&self) -> String {
        let Function { name, table, .. } = self;
        format!(
            "r6 = {free}\nr7 = {fresh}\nr8 = 0\nr9 = {max_entries}\n\
             if r1 == 0 goto {name}_begin\n\
             r6 = {spare}\nr7 = {fresh_spare}\nr8 = {max_entries}\nr9 = {spare_nodes}\n\
             {name}_begin:\nr1 = {TRIES}\n*(u64 *)(r10 - 8) = r1\n\
             {name}_again:\n\
             r1 = *(u64 *)(r10 - 8)\nif r1 == 0 goto {name}_none\nr1 += -1\n*(u64 *)(r10 - 8) = r1\n\
             r2 = *(u64 *)(r6 + 0)\nr3 = r2\nr3 &= {INDEX}\nr1 = r3\nif r3 == 0 goto {name}_fresh\n\
             {node}\
             r4 = *(u64 *)(r5 + 0)\nr5 = r2\n{past}r0 = r2\nr0 = cmpxchg_64(r6 + 0x0, r0, r5)\nif r0 != r2 goto {name}_again\n\
             r0 = r1\nexit\n\
             {name}_fresh:\n\
             r2 = *(u64 *)(r7 + 0)\nif r2 >= r9 goto {name}_none\n\
             r2 = 1\nr2 = atomic_fetch_add((u64 *)(r7 + 0), r2)\nif r2 >= r9 goto {name}_too_many\n\
             r0 = r2\nr0 += r8\nr0 += 1\nexit\n\
             ; Others took the last ones meanwhile: whoever sees the count higher than that takes none either.\n\
             {name}_too_many:\nr2 = -1\nlock *(u64 *)(r7 + 0) += r2\nr0 = 0\nexit\n\
             {name}_corrupt:\n{corrupt}r0 = 0\nexit\n\
             {name}_none:\nr0 = 0\nexit\n",
            free = address(table.control + at::FREE),
            fresh = address(table.control + at::FRESH),
            spare = address(table.control + at::SPARE),
            fresh_spare = address(table.control + at::FRESH_SPARE),
            max_entries = table.max_entries,
            spare_nodes = table.node_count - table.max_entries,
            node = self.node("r5", "r3", "corrupt"),
            past = link_to("r5", "r4"),
            corrupt = self.count(at::CORRUPT),
        )
    }

    /// The head of the chain of the hash in `hash`, which becomes the head's offset from the first one.
    fn bucket(&self, to: &str, hash: &str) -> String {
        let Table { buckets, bucket_mask, .. } = *self.table;
        format!("{hash} &= {bucket_mask}\n{hash} <<= 3\n{to} = {}\n{to} += {hash}\n", address(buckets))
    }

    /// The address of the node whose index and one is in `index`, which is changed; at `out_of_bounds` where there is none.
    fn node(&self, to: &str, index: &str, out_of_bounds: &str) -> String {
        let Table { nodes, node_stride, node_count, .. } = *self.table;
        format!(
            "{index} += -1\nif {index} > {last} goto {name}_{out_of_bounds}\n\
             {index} *= {node_stride}\n{to} = {address}\n{to} += {index}\n",
            name = self.name,
            last = node_count - 1,
            address = address(nodes),
        )
    }

    fn count(&self, what: u64) -> String {
        format!("r1 = {}\nr2 = 1\nlock *(u64 *)(r1 + 0) += r2\n", address(self.table.control + what))
    }
}

/// The last step, with this result.
fn done(name: &str, result: i32) -> String {
    format!("r1 = {result}\ngoto {name}_done\n")
}

/// `word` becomes the word that leads from where it led to what `to` leads to.
fn link_to(word: &str, to: &str) -> String {
    // `to` stays as it is; r0 is free wherever links are made.
    format!(
        "{word} >>= {VERSION_SHIFT}\n{word} += 1\n{word} <<= {VERSION_SHIFT}\nr0 = {to}\nr0 &= {INDEX}\n{word} |= r0\n"
    )
}

fn address(offset: u64) -> String {
    format!("map[.in_kernel][0] + {offset:#x} ll")
}
