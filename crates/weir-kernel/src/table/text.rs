//! The functions on a table, as assembly text.
//!
//! What stands for a helper takes what that takes: the key's address in r2, of the value in r3, flags in r4; r1, the map, is not looked at. It calls a
//! global function, which the kernel's verifier looks at by itself, once: its loops would else be walked through at each call.
//!
//! A walk has, for as long as it lasts: the key in r6, the link that led to where it is in r7 (a bucket's head or a node, whose link is its first
//! word), that link's word in r8, the node in r9; on the stack what [`slot`] names.

use std::fmt::Write as _;

use weir_ebpf::btf::Argument;
use weir_ebpf::map::Table;

use super::{Operation, Tables};

/// Steps of a walk, restarts included: chains have one node or two.
const STEPS: u32 = 32;
/// Attempts to take a node off a list or to give one back, which others do at the same time.
const TRIES: u32 = 16;

/// Bits of a link's word: see weir-rt's `c/hash.h`.
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

/// Below r10.
mod slot {
    pub(super) const HASH: u32 = 8;
    pub(super) const STEPS: u32 = 16;
    /// The word of the bucket's head, as the walk saw it.
    pub(super) const HEAD: u32 = 24;
    /// Of the node that was found.
    pub(super) const WORD: u32 = 32;
    /// The link that leads to the node is the bucket's head.
    pub(super) const IS_HEAD: u32 = 40;
    pub(super) const VALUE: u32 = 48;
    pub(super) const FLAGS: u32 = 56;
    /// A node for a new key, as its index and one; 0: none was taken.
    pub(super) const NEW: u32 = 64;
    /// One that replaces another.
    pub(super) const SPARE: u32 = 72;
    /// The word that a node is marked with.
    pub(super) const MARKED: u32 = 80;
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
    for (number, table) in tables.tables.iter().enumerate() {
        let operations: Vec<Operation> =
            wanted.iter().filter(|(of, _)| *of == number).map(|(_, operation)| *operation).collect();
        let function = |name: &str| Function { table, number, name: format!("t{number}_{name}") };
        let key = Argument::Memory { bytes: table.key_bytes };
        for operation in &operations {
            let name = caller(number, *operation);
            let (called, body, arguments) = match operation {
                Operation::Lookup => (function("find"), function("find").find(), vec![key]),
                Operation::Update => {
                    let value = Argument::Memory { bytes: 8 };
                    (function("put"), function("put").put(), vec![key, value, Argument::Number])
                }
                Operation::Delete => (function("remove"), function("remove").remove(), vec![key]),
            };
            callers += &Function { name, ..called }.caller(*operation, &called.name);
            add(&called.name, body, arguments);
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
        "map .in_kernel array key 4 value {} entries 1\nprogram \"functions\" probe\n{calls}{callers}{functions}",
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

    /// r1: the key. The index of its node and one, or 0.
    fn find(&self) -> String {
        let Function { name, .. } = self;
        format!(
            "if r1 == 0 goto {name}_absent\nr6 = r1\n\
             {hash}{walk}\
             {name}_found:\nr0 = r8\nr0 &= {INDEX}\nexit\n\
             {name}_corrupt:\n{corrupt}\
             {name}_gave_up:\n{contended}\
             {name}_absent:\nr0 = 0\nexit\n",
            hash = self.hash(),
            walk = self.walk(),
            corrupt = self.count(at::CORRUPT),
            contended = self.count(at::CONTENDED),
        )
    }

    /// r1: the key. 0 or an error.
    fn remove(&self) -> String {
        let Function { name, number, .. } = self;
        format!(
            "if r1 == 0 goto {name}_absent\nr6 = r1\n\
             {hash}{walk}\
             {name}_found:\n\
             r2 = *(u64 *)(r10 - {WORD})\nr1 = r2\n{marked}r1 |= {DELETED}\n\
             *(u64 *)(r10 - {MARKED}) = r1\nr0 = r2\nr0 = cmpxchg_64(r9 + 0x0, r0, r1)\nif r0 != r2 goto {name}_restart\n\
             {unlink}\
             r0 = 0\nexit\n\
             {name}_corrupt:\n{corrupt}\
             {name}_gave_up:\n{contended}r0 = -16\nexit\n\
             {name}_absent:\nr0 = -2\nexit\n",
            WORD = slot::WORD,
            MARKED = slot::MARKED,
            hash = self.hash(),
            walk = self.walk(),
            marked = link_to("r1", "r2"),
            unlink = self.unlink(*number),
            corrupt = self.count(at::CORRUPT),
            contended = self.count(at::CONTENDED),
        )
    }

    /// r1: the key, r2: the value, r3: 1 if the key is not to be there. 0 or an error.
    fn put(&self) -> String {
        let Function { name, number, table } = self;
        format!(
            "if r1 == 0 goto {name}_null\nif r2 == 0 goto {name}_null\nr6 = r1\n\
             *(u64 *)(r10 - {VALUE}) = r2\n*(u64 *)(r10 - {FLAGS}) = r3\nr1 = 0\n*(u64 *)(r10 - {NEW}) = r1\n\
             {hash}{walk}\
             {name}_found:\n\
             r1 = *(u64 *)(r10 - {FLAGS})\nif r1 == 1 goto {name}_exists\n\
             r1 = 1\ncall t{number}_take\nif r0 == 0 goto {name}_gave_up\n*(u64 *)(r10 - {SPARE}) = r0\n\
             {fill_spare}\
             r2 = *(u64 *)(r10 - {WORD})\nr1 = r2\nr3 = *(u64 *)(r10 - {SPARE})\n{linked}r1 |= {REPLACED}\n\
             *(u64 *)(r10 - {MARKED}) = r1\nr0 = r2\nr0 = cmpxchg_64(r9 + 0x0, r0, r1)\nif r0 == r2 goto {name}_replaced\n\
             r1 = *(u64 *)(r10 - {SPARE})\nr2 = {REPLACED}\ncall t{number}_release\ngoto {name}_restart\n\
             {name}_replaced:\n{unlink}\
             r8 = 0\n\
             {name}_leave:\n\
             r1 = *(u64 *)(r10 - {NEW})\nif r1 == 0 goto {name}_exit\nr2 = 0\ncall t{number}_release\n\
             {name}_exit:\nr0 = r8\nexit\n\
             {name}_null:\nr0 = -22\nexit\n\
             {name}_exists:\nr8 = -17\ngoto {name}_leave\n\
             {name}_corrupt:\n{corrupt}\
             {name}_gave_up:\n{contended}r8 = -16\ngoto {name}_leave\n\
             {name}_absent:\n\
             r0 = *(u64 *)(r10 - {NEW})\nif r0 != 0 goto {name}_have\n\
             r1 = 0\ncall t{number}_take\n\
             *(u64 *)(r10 - {NEW}) = r0\nr8 = -7\nif r0 == 0 goto {name}_leave\n\
             {name}_have:\n\
             {fill_new}\
             r2 = *(u64 *)(r10 - {HEAD})\nr1 = r2\nr3 = *(u64 *)(r10 - {NEW})\n{linked}\
             r4 = *(u64 *)(r10 - {HASH})\nr4 &= {mask}\nr4 <<= 3\nr5 = {buckets}\nr5 += r4\n\
             r0 = r2\nr0 = cmpxchg_64(r5 + 0x0, r0, r1)\nif r0 != r2 goto {name}_restart\n\
             r0 = 0\nexit\n",
            VALUE = slot::VALUE,
            FLAGS = slot::FLAGS,
            NEW = slot::NEW,
            SPARE = slot::SPARE,
            WORD = slot::WORD,
            MARKED = slot::MARKED,
            HEAD = slot::HEAD,
            HASH = slot::HASH,
            hash = self.hash(),
            walk = self.walk(),
            buckets = address(table.buckets),
            mask = table.bucket_mask,
            fill_spare = self.fill(slot::SPARE, slot::WORD),
            fill_new = self.fill(slot::NEW, slot::HEAD),
            linked = link_to("r1", "r3"),
            unlink = self.unlink(*number),
            corrupt = self.count(at::CORRUPT),
            contended = self.count(at::CONTENDED),
        )
    }

    /// Fills the node whose index and one is in this slot, which nobody else can see, so that it leads to where the word in the other leads.
    fn fill(&self, index: u32, next: u32) -> String {
        let mut text = format!("r3 = *(u64 *)(r10 - {index})\n{}", self.node("r5", "r3", "corrupt"));
        let _ = write!(text, "r1 = *(u64 *)(r10 - {})\n*(u64 *)(r5 + {}) = r1\n", slot::HASH, at::HASH);
        for word in 0..self.table.key_bytes / 8 {
            let to = at::KEY + 8 * word;
            let _ = write!(text, "r1 = *(u64 *)(r6 + {})\n*(u64 *)(r5 + {to}) = r1\n", 8 * word);
        }
        let _ = write!(
            text,
            "r2 = *(u64 *)(r10 - {})\nr1 = *(u64 *)(r2 + 0)\n*(u64 *)(r5 + {}) = r1\n\
             r1 = *(u64 *)(r5 + 0)\nr2 = *(u64 *)(r10 - {next})\n{}*(u64 *)(r5 + 0) = r1\n",
            slot::VALUE,
            at::VALUE,
            link_to("r1", "r2")
        );
        text
    }

    /// Leaves the hash of the key in r6 on the stack: `hash_bytes` of weir-rt's `c/hash.h`.
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
            "r5 = 0xd6e8feb86659fd93 ll\nr0 *= r5\nr1 = r0\nr1 >>= 32\nr0 ^= r1\nr0 <<= 1\nr0 >>= 1\n\
             *(u64 *)(r10 - {}) = r0\nr1 = {STEPS}\n*(u64 *)(r10 - {}) = r1\n",
            slot::HASH,
            slot::STEPS
        );
        text
    }

    /// Goes on at `found`, with what a walk has, at `absent`, `gave_up` or `corrupt`; at `restart` it begins again.
    fn walk(&self) -> String {
        let Function { name, number, table } = self;
        let mut compared = String::new();
        for word in 0..table.key_bytes / 8 {
            let _ = write!(
                compared,
                "r3 = *(u64 *)(r9 + {})\nr4 = *(u64 *)(r6 + {})\nif r3 != r4 goto {name}_next\n",
                at::KEY + 8 * word,
                8 * word
            );
        }
        format!(
            "{name}_restart:\n\
             r1 = *(u64 *)(r10 - {HASH})\nr1 &= {mask}\nr1 <<= 3\nr7 = {buckets}\nr7 += r1\n\
             r8 = *(u64 *)(r7 + 0)\n*(u64 *)(r10 - {HEAD}) = r8\nr1 = 1\n*(u64 *)(r10 - {IS_HEAD}) = r1\n\
             {name}_step:\n\
             r1 = *(u64 *)(r10 - {STEPS})\nif r1 == 0 goto {name}_gave_up\nr1 += -1\n*(u64 *)(r10 - {STEPS}) = r1\n\
             r3 = r8\nr3 &= {INDEX}\nif r3 == 0 goto {name}_end\n\
             {node}\
             r2 = *(u64 *)(r9 + 0)\n*(u64 *)(r10 - {WORD}) = r2\n\
             r3 = *(u64 *)(r7 + 0)\nif r3 != r8 goto {name}_restart\n\
             r3 = r2\nr3 &= {marks}\nif r3 != 0 goto {name}_gone\n\
             {compared}\
             r3 = *(u64 *)(r9 + 0)\nif r3 != r2 goto {name}_restart\n\
             goto {name}_found\n\
             {name}_next:\n\
             r7 = r9\nr8 = r2\nr1 = 0\n*(u64 *)(r10 - {IS_HEAD}) = r1\ngoto {name}_step\n\
             ; A marked node: the walk takes it out of the chain, and goes on from the same link.\n\
             {name}_gone:\n\
             r3 = r8\n{past}r0 = r8\nr0 = cmpxchg_64(r7 + 0x0, r0, r3)\nif r0 != r8 goto {name}_restart\n\
             r4 = r8\nr4 &= {INDEX}\nr8 = r3\n\
             r1 = *(u64 *)(r10 - {IS_HEAD})\nif r1 == 0 goto {name}_passed\n*(u64 *)(r10 - {HEAD}) = r8\n\
             {name}_passed:\n\
             r1 = r4\nr2 = *(u64 *)(r10 - {WORD})\ncall t{number}_release\ngoto {name}_step\n\
             {name}_end:\n\
             r3 = *(u64 *)(r7 + 0)\nif r3 != r8 goto {name}_restart\ngoto {name}_absent\n",
            HASH = slot::HASH,
            HEAD = slot::HEAD,
            IS_HEAD = slot::IS_HEAD,
            STEPS = slot::STEPS,
            WORD = slot::WORD,
            mask = table.bucket_mask,
            buckets = address(table.buckets),
            marks = DELETED | REPLACED,
            node = self.node("r9", "r3", "corrupt"),
            past = link_to("r3", "r2"),
        )
    }

    /// After the node in r9 was marked: takes it out of its chain. If the chain has changed, whoever passes it does.
    fn unlink(&self, number: usize) -> String {
        let name = &self.name;
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
             r1 = *(u64 *)(r10 - 8)\nif r1 == 0 goto {name}_lost\nr1 += -1\n*(u64 *)(r10 - 8) = r1\n\
             r2 = *(u64 *)(r6 + 0)\nr3 = r2\nr3 &= {INDEX}\nr1 = r3\nif r3 == 0 goto {name}_fresh\n\
             {node}\
             r4 = *(u64 *)(r5 + 0)\nr5 = r2\n{past}r0 = r2\nr0 = cmpxchg_64(r6 + 0x0, r0, r5)\nif r0 != r2 goto {name}_again\n\
             r0 = r1\nexit\n\
             {name}_fresh:\n\
             r2 = *(u64 *)(r7 + 0)\nif r2 >= r9 goto {name}_none\n\
             r3 = r2\nr3 += 1\nr0 = r2\nr0 = cmpxchg_64(r7 + 0x0, r0, r3)\nif r0 != r2 goto {name}_again\n\
             r0 = r2\nr0 += r8\nr0 += 1\nexit\n\
             {name}_corrupt:\n{corrupt}r0 = 0\nexit\n\
             {name}_lost:\n{contended}\
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
            contended = self.count(at::CONTENDED),
        )
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
