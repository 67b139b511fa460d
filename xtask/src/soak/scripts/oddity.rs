//! Oddity: what weir and bpftrace 0.23 are known to take differently, as statements.
//!
//! Each row writes a statement twice: as the two differ about it, and so that they agree. A script that differs and is equal with the
//! second in the place of the first, all else the same, differs for that reason and no other. The reasons are those of "Differences
//! from bpftrace 0.23" in docs/language.md.

use crate::soak::scripts::generate::Writer;

#[derive(Debug)]
pub(super) struct Oddity {
    pub(super) name: &'static str,
    /// The statement, and its plain twin.
    pub(super) write: fn(&mut Writer) -> [String; 2],
}

impl PartialEq for Oddity {
    fn eq(&self, other: &Oddity) -> bool {
        self.name == other.name
    }
}

impl Eq for Oddity {}

pub(super) const ODDITIES: [Oddity; 33] = [
    Oddity {
        name: "signed division",
        write: |writer| {
            let [left, right] = [writer.operand(), writer.operand()];
            [
                format!("print(((int64){left} / ((int64){right} | 1))); "),
                format!("print(((uint64){left} / ((uint64){right} | 1))); "),
            ]
        },
    },
    Oddity {
        name: "signed remainder",
        write: |writer| {
            let [left, right] = [writer.operand(), writer.operand()];
            [
                format!("print(((int64){left} % ((int64){right} | 1))); "),
                format!("print(((uint64){left} % ((uint64){right} | 1))); "),
            ]
        },
    },
    Oddity {
        name: "%d, %u and %x of more than 32 bits",
        write: |writer| {
            let conversion = ["d", "u", "x"][writer.below(3)];
            let value = writer.operand();
            let write = |long: &str| format!("printf(\"%{long}{conversion}\\n\", (int64){value}); ");
            [write(""), write("ll")]
        },
    },
    Oddity {
        name: "arithmetic of integers of fewer than 64 bits",
        write: |writer| {
            let [left, right] = [writer.operand(), writer.operand()];
            let of = ["uint8", "int8", "uint16", "int32"][writer.below(4)];
            let operator = ["+", "-", "*"][writer.below(3)];
            [
                format!("print((({of}){left} {operator} ({of}){right})); "),
                format!("print(((int64)({of}){left} {operator} (int64)({of}){right})); "),
            ]
        },
    },
    Oddity {
        name: "a step of a variable of fewer than 64 bits",
        write: |_| {
            [
                "$odd = (int8)127; $odd++; print($odd); ".into(),
                "$odd = (int64)127; $odd++; print($odd); ".into(),
            ]
        },
    },
    Oddity {
        name: "a shift by 64 or more",
        write: |writer| {
            let (value, count) = (writer.operand(), writer.below(64));
            [format!("print(({value} << {})); ", 64 + count), format!("print(({value} << {count})); ")]
        },
    },
    Oddity {
        name: "a remainder of a division by 0",
        write: |writer| {
            let value = writer.operand();
            [
                format!("$odd = (uint64)0; print(((uint64){value} % $odd)); "),
                format!("$odd = (uint64)1; print(((uint64){value} % $odd)); "),
            ]
        },
    },
    Oddity {
        name: "tuples, compared",
        write: |writer| {
            let value = writer.operand();
            [
                format!("if (({value}, \"a\") == ({value}, \"a\")) {{ print(\"same\"); }} "),
                "print(\"same\"); ".into(),
            ]
        },
    },
    Oddity {
        name: "a comparison, kept in a map",
        write: |writer| {
            let value = writer.operand();
            [format!("@odd = {value} < 5; "), format!("@odd = {value} < 5 ? 1 : 0; ")]
        },
    },
    Oddity {
        name: "control characters",
        write: |writer| {
            let text = ["a\\nb", "\\x1b", "a\\x01", "\\r"][writer.below(4)];
            [format!("print(\"{text}\"); "), "print(\"a\"); ".into()]
        },
    },
    Oddity {
        name: "clear of a count without keys",
        write: |_| ["@odd = count(); clear(@odd); ".into(), "@odd = count(); ".into()],
    },
    Oddity {
        name: "if without round brackets",
        write: |writer| {
            let value = writer.operand();
            [format!("if {value} < 5 {{ print(1); }} "), format!("if ({value} < 5) {{ print(1); }} ")]
        },
    },
    Oddity {
        name: "a block of its own",
        write: |_| ["{ $odd = 5; print($odd); } ".into(), "if (1) { $odd = 5; print($odd); } ".into()],
    },
    Oddity {
        name: "flags and precision of numbers in printf",
        write: |writer| {
            let flag = ["+", " ", "#", ".3"][writer.below(4)];
            [format!("printf(\"%{flag}llx\\n\", 5); "), "printf(\"%llx\\n\", 5); ".into()]
        },
    },
    Oddity {
        name: "lhist from below 0",
        write: |_| ["@odd = lhist(5, -10, 10, 5); ".into(), "@odd = lhist(5, 0, 10, 5); ".into()],
    },
    Oddity {
        name: "break in unroll",
        write: |_| {
            [
                "unroll (3) { print(1); if (1) { break; } } ".into(),
                "unroll (1) { print(1); if (1) { } } ".into(),
            ]
        },
    },
    Oddity {
        name: "break and continue in a loop over a map",
        write: |writer| {
            let word = ["break", "continue"][writer.below(2)];
            [
                format!("@odd[1] = 1; for ($odd : @odd) {{ if (1) {{ {word}; }} }} "),
                "@odd[1] = 1; for ($odd : @odd) { } ".into(),
            ]
        },
    },
    Oddity {
        name: "delete as a value",
        write: |_| {
            [
                "@odd[1] = 1; $odd = delete(@odd, 1); print($odd); ".into(),
                "@odd[1] = 1; delete(@odd, 1); print(1); ".into(),
            ]
        },
    },
    Oddity {
        name: "literals, computed beyond 63 bits",
        write: |_| ["print(9223372036854775807 + 1); ".into(), "print(9223372036854775807); ".into()],
    },
    Oddity {
        name: "a cast to more bits and another sign",
        write: |writer| {
            let value = writer.operand();
            let (few, many) = [("uint16", "int64"), ("int8", "uint64")][writer.below(2)];
            [format!("print(({many})(({few}){value})); "), format!("print(({many})((({few}){value}) + 0)); ")]
        },
    },
    Oddity {
        name: "a choice between entries of maps",
        write: |writer| {
            let value = writer.operand();
            [
                format!("@odd[1] = 7; print(({value} & 1) ? @odd[1] : 5); "),
                format!("@odd[1] = 7; print(({value} & 1) ? 7 : 5); "),
            ]
        },
    },
    Oddity {
        name: "%i in printf",
        write: |_| ["printf(\"%i\\n\", 5); ".into(), "printf(\"%d\\n\", 5); ".into()],
    },
    Oddity {
        name: "%% behind the last conversion of printf",
        write: |_| ["printf(\"%d 5%%\\n\", 5); ".into(), "printf(\"%d 5\\n\", 5); ".into()],
    },
    Oddity {
        name: "a literal of 2^31 or more, without a cast",
        write: |writer| {
            let literal = ["2147483648", "4294967295", "9223372036854775807"][writer.below(3)];
            [
                format!("@odd = {literal}; @odd = -1; print(@odd); "),
                format!("@odd = (int64){literal}; @odd = -1; print(@odd); "),
            ]
        },
    },
    Oddity {
        name: "a choice between a long text and a short one",
        write: |writer| {
            let value = writer.operand();
            let long = "abcdefgh".repeat(3);
            [
                format!("@odd = ({value} & 1) ? \"{long}\" : \"x\"; "),
                format!("@odd = ({value} & 1) ? \"{long}\" : \"{}\"; ", long.to_uppercase()),
            ]
        },
    },
    Oddity {
        name: "a parameter of the script, compared as it is",
        write: |writer| {
            let value = writer.below(9);
            [format!("print((-{value} < $1)); "), format!("print((-{value} < (int64)$1)); ")]
        },
    },
    Oddity {
        name: "an unsigned key, printed",
        write: |writer| {
            let value = 1 + writer.below(9);
            [format!("@odd[(uint64)-{value}] = 1; "), format!("@odd[(int64)-{value}] = 1; ")]
        },
    },
    Oddity {
        name: "a key with a step, in a compound assignment",
        write: |_| {
            [
                "$odd = 1; @odd[$odd++] += 5; print($odd); ".into(),
                "$odd = 1; @odd[$odd] += 5; $odd++; print($odd); ".into(),
            ]
        },
    },
    Oddity {
        name: "has_key of a histogram",
        write: |_| {
            [
                "@odd[1] = hist(5); if (has_key(@odd, 1)) { print(1); } ".into(),
                "@odd[1] = hist(5); if (1) { print(1); } ".into(),
            ]
        },
    },
    Oddity {
        name: "a text of max_strlen - 1 bytes in printf",
        write: |writer| {
            let text = "x".repeat(writer.strlen_max() - 1);
            [format!("printf(\"%s\\n\", \"{text}\"); "), format!("printf(\"%s\\n\", \"{}\"); ", &text[1..])]
        },
    },
    Oddity {
        name: "zero of avg and stats",
        write: |writer| {
            let name = ["avg", "stats"][writer.below(2)];
            [format!("@odd[1] = {name}(5); zero(@odd); "), format!("@odd[1] = {name}(5); ")]
        },
    },
    Oddity {
        name: "min and max below 0, sorted",
        write: |writer| {
            let name = ["min", "max"][writer.below(2)];
            [
                format!("@odd[1] = {name}(-3); @odd[2] = {name}(6); "),
                format!("@odd[1] = {name}(3); @odd[2] = {name}(6); "),
            ]
        },
    },
    Oddity {
        name: "a key that the value of an aggregation changes",
        write: |_| {
            [
                "$odd = 1; @odd[$odd] = sum($odd++); print($odd); ".into(),
                "$odd = 1; @odd[$odd] = sum($odd); $odd++; print($odd); ".into(),
            ]
        },
    },
];
