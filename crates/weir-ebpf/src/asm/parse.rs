//! Text → object, line by line. Whatever the text, the answer is an object or an error with its line.

use std::collections::HashMap;

use crate::asm::contents::Content;
use crate::asm::line::{Line, Token};
use crate::asm::{ALU_OPERATORS, ATOMICS, AsmError, COMPARISONS, LOAD_ACQUIRE, STORE_RELEASE, WIDTHS};
use crate::insn::{LD_IMM64, MAY_GOTO, alu, atomic, class, jmp, mode, pseudo, size, source};
use crate::{Insn, MapKind, MapSpec, Object, Program, ProgramKind, helper, kfunc};

/// The object that `text` writes down (see the [module](crate::asm) for the syntax), which gives no map contents: an
/// object has none.
pub fn parse(text: &str) -> Result<Object, AsmError> {
    let (object, contents) = parse_parts(text)?;
    match contents.first() {
        None => Ok(object),
        Some(content) => {
            Err(AsmError { line: content.line, message: "contents of maps have no place here".into() })
        }
    }
}

/// The object, and the lines that say what its maps hold at first.
pub(super) fn parse_parts(text: &str) -> Result<(Object, Vec<Content>), AsmError> {
    let mut reader = Reader::default();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let read = Line::of(line).and_then(|line| reader.line(number, line));
        read.map_err(|message| AsmError { line: number, message })?;
    }
    reader.end_program()?;
    Ok((reader.object, reader.contents))
}

/// Errors inside a line; the line number is added outside.
pub(super) type Result<T, E = String> = std::result::Result<T, E>;

#[derive(Default)]
struct Reader {
    object: Object,
    contents: Vec<Content>,
    /// Labels of the current program: slot.
    labels: HashMap<String, usize>,
    /// Jumps of the current program to fill in: slot, line, label.
    pending: Vec<(usize, usize, String)>,
}

/// Where a jump goes: a distance, or a label to look up later.
enum Target {
    Distance(i64),
    Label(String),
}

impl Reader {
    fn line(&mut self, number: usize, mut line: Line) -> Result<()> {
        self.labels_of(&mut line)?;
        if line.at_end() {
            return Ok(());
        }
        match line.peek() {
            Some(Token::Word(word)) if word == "map" => self.map(&mut line)?,
            Some(Token::Word(word)) if word == "initial" || word == "holds" => {
                self.contents.push(Content::of(number, &mut line)?);
            }
            Some(Token::Word(word)) if word == "program" => {
                self.end_program().map_err(|error| format!("{} (line {})", error.message, error.line))?;
                self.program(&mut line)?;
            }
            _ => {
                let (insns, label) = self.instruction(&mut line)?;
                let maps_only = self.object.programs.is_empty();
                if maps_only {
                    return Err("an instruction before the first `program \"name\" kind`".into());
                }
                let program = self.current();
                if let Some(label) = label {
                    let slot = program.insns.len();
                    self.pending.push((slot, number, label));
                }
                self.current().insns.extend(insns);
            }
        }
        line.end()
    }

    /// The program being read. Only called where one exists.
    fn current(&mut self) -> &mut Program {
        self.object.programs.last_mut().expect("a program was begun")
    }

    /// Takes `12:` (ignored) and `name:` (a label) from the start of the line.
    fn labels_of(&mut self, line: &mut Line) -> Result<()> {
        loop {
            match (line.peek(), line.peek_at(1)) {
                (Some(Token::Number(_)), Some(Token::Punct(":"))) => {}
                (Some(Token::Word(label)), Some(Token::Punct(":"))) => {
                    let slot = self.object.programs.last().map_or(0, |program| program.insns.len());
                    if self.labels.insert(label.clone(), slot).is_some() {
                        return Err(format!("label `{label}` is defined twice"));
                    }
                }
                _ => return Ok(()),
            }
            line.next += 2;
        }
    }

    fn map(&mut self, line: &mut Line) -> Result<()> {
        line.word("map")?;
        let name = line.name()?;
        let kind_name = line.any_word("a map kind")?;
        let kind = MapKind::from_name(&kind_name).ok_or_else(|| {
            let known = MapKind::ALL.map(MapKind::name).join(", ");
            format!("`{kind_name}` is no map kind (known: {known})")
        })?;
        let key_bytes = line.field("key")?;
        let value_bytes = line.field("value")?;
        let max_entries = line.field("entries")?;
        let flags = if line.is_word("flags") { line.field("flags")? } else { 0 };
        let extra = if line.is_word("extra") { line.field("extra")?.into() } else { 0 };
        let inner = if line.is_word("inner") { Some(line.field("inner")?) } else { None };
        self.object.maps.push(MapSpec {
            name,
            kind,
            key_bytes,
            value_bytes,
            max_entries,
            flags,
            extra,
            inner,
        });
        Ok(())
    }

    fn program(&mut self, line: &mut Line) -> Result<()> {
        line.word("program")?;
        let name = line.name()?;
        let kind_name = line.any_word("a program kind")?;
        let kind = match kind_name.as_str() {
            "probe" => ProgramKind::Probe,
            "controller" => ProgramKind::Controller,
            "tracepoint" => ProgramKind::Tracepoint,
            "tracing" => ProgramKind::Tracing,
            "socket" => ProgramKind::SocketFilter,
            "xdp" => ProgramKind::Xdp,
            "classifier" => ProgramKind::Classifier,
            "cgroup_skb" => ProgramKind::CgroupSkb,
            "cgroup_sock" => ProgramKind::CgroupSock,
            "sk_msg" => ProgramKind::SkMsg,
            "flow_dissector" => ProgramKind::FlowDissector,
            "memory" => {
                let bytes = line.unsigned("the memory's bytes")?;
                let bytes = u32::try_from(bytes).map_err(|_| format!("memory of {bytes} bytes"))?;
                ProgramKind::Memory { bytes }
            }
            "unsupported" => {
                let section = line.name()?;
                return Err(format!(
                    "unsupported: the program `{}` is of section `{}`, whose context weir does not have",
                    name.escape_debug(),
                    section.escape_debug()
                ));
            }
            _ => {
                let known = ProgramKind::NAMES.join(", ");
                return Err(format!("`{kind_name}` is no program kind (known: {known})"));
            }
        };
        self.object.programs.push(Program { name, kind, insns: Vec::new() });
        Ok(())
    }

    /// Fills in the jumps to labels.
    fn end_program(&mut self) -> Result<(), AsmError> {
        for (slot, line, label) in std::mem::take(&mut self.pending) {
            let error = |message| AsmError { line, message };
            let target = self.labels.get(&label).copied();
            let insn = &mut self.current().insns[slot];
            // Of a helper that weir does not have the text is read; that it is refused is the verifier's to say.
            let helper = helper::kernel_number(&label).filter(|_| target.is_none() && is_call(*insn));
            if let Some(id) = helper {
                (insn.src, insn.imm) = (pseudo::HELPER, id);
                continue;
            }
            let Some(target) = target else {
                let what = if is_call(*insn) { "no helper is called so, and " } else { "" };
                return Err(error(format!("{what}label `{label}` is not defined in this program")));
            };
            let distance = target as i64 - slot as i64 - 1;
            set_distance(insn, distance).map_err(error)?;
        }
        self.labels.clear();
        Ok(())
    }

    /// One instruction: one or two slots, and the label it jumps to if it does.
    fn instruction(&self, line: &mut Line) -> Result<(Vec<Insn>, Option<String>)> {
        let first = line.advance("an instruction")?;
        let one = |insn| Ok((vec![insn], None));
        match &first {
            Token::Punct("*") => one(store(line)?),
            Token::Word(word) => match word.as_str() {
                ".insn" => {
                    let bits = line.unsigned("the 8 bytes of the slot")?;
                    one(Insn::from_bytes(bits.to_le_bytes()))
                }
                "exit" => one(Insn { opcode: class::JMP | jmp::EXIT, ..Insn::default() }),
                "call" => call(line),
                "goto" => jump(line, class::JMP | jmp::JA),
                "gotol" => jump(line, class::JMP32 | jmp::JA),
                "may_goto" => jump(line, MAY_GOTO),
                "if" => condition(line),
                "lock" => one(lock(line)?),
                STORE_RELEASE => one(store_release(line)?),
                _ => {
                    let dst = as_register(word).ok_or_else(|| format!("`{word}` begins no instruction"))?;
                    self.assignment(line, dst)
                }
            },
            other => Err(format!("{other} begins no instruction")),
        }
    }

    /// What begins with a register.
    fn assignment(&self, line: &mut Line, dst: Register) -> Result<(Vec<Insn>, Option<String>)> {
        let one = |insn| Ok((vec![insn], None));
        let operator = line.operator()?;
        if operator != "=" {
            return one(arithmetic(line, dst, &operator)?);
        }
        match (line.peek().cloned(), line.peek_at(1).cloned()) {
            (Some(Token::Word(word)), Some(Token::Punct("["))) if word == "map" => {
                Ok((self.map_load(line, dst)?.to_vec(), None))
            }
            (Some(Token::Word(word)), Some(Token::Punct("["))) if word == "map_fd" => {
                Ok((map_descriptor_load(line, dst)?.to_vec(), None))
            }
            (Some(Token::Word(word)), Some(Token::Word(ll))) if ll == "ll" => {
                line.next += 2;
                dst.wide()?;
                Ok((wide(dst, pseudo::FUNCTION, 0).to_vec(), Some(word)))
            }
            (Some(Token::Word(word)), Some(_)) if word == "pc" || word == "btf" => {
                line.next += 1;
                dst.wide()?;
                let pseudo = if word == "pc" { pseudo::FUNCTION } else { pseudo::VARIABLE };
                let imm = as_i32(line.signed("a distance or a BTF id")?)?;
                line.word("ll")?;
                Ok((wide(dst, pseudo, u64::from(imm as u32)).to_vec(), None))
            }
            (Some(Token::Word(word)), Some(Token::Punct("("))) => one(fetch(line, dst, &word)?),
            (Some(Token::Word(word)), _) if as_register(&word).is_none() => one(swap(line, dst, &word)?),
            (Some(Token::Punct("*")), _) => one(load(line, dst)?),
            (Some(Token::Punct("(")), _) => one(sign_extend(line, dst)?),
            (Some(Token::Punct("-")), Some(Token::Word(word))) if as_register(&word).is_some() => {
                line.next += 2;
                same_register(dst, &word)?;
                one(Insn { opcode: dst.alu_class() | alu::NEG, dst: dst.number, ..Insn::default() })
            }
            (Some(Token::Punct("-" | "+") | Token::Number(_)), _) => {
                let value = line.signed("a number")?;
                if !line.take_word("ll") {
                    let imm = immediate(dst, value)?;
                    return one(Insn {
                        opcode: dst.alu_class() | alu::MOV,
                        dst: dst.number,
                        imm,
                        ..Insn::default()
                    });
                }
                dst.wide()?;
                Ok((wide(dst, pseudo::NONE, as_bits64(value)?).to_vec(), None))
            }
            _ => one(arithmetic(line, dst, "=")?),
        }
    }

    /// `map[NAME] ll` and `map[NAME][0] + 0x8 ll`.
    fn map_load(&self, line: &mut Line, dst: Register) -> Result<[Insn; 2]> {
        dst.wide()?;
        line.word("map")?;
        line.punct("[")?;
        let index = if line.take_punct("#") {
            as_i32(line.unsigned("a map index")?.into())?
        } else {
            let name = line.name()?;
            let index = self.object.maps.iter().position(|map| map.name == name);
            index.ok_or_else(|| format!("no map `{name}` is defined above"))? as i32
        };
        map_load(line, dst, index, [pseudo::MAP_INDEX, pseudo::MAP_INDEX_VALUE])
    }
}

/// `map_fd[3] ll` and `map_fd[3][0] + 0x8 ll`.
fn map_descriptor_load(line: &mut Line, dst: Register) -> Result<[Insn; 2]> {
    dst.wide()?;
    line.word("map_fd")?;
    line.punct("[")?;
    let descriptor = as_i32(line.unsigned("a descriptor")?.into())?;
    map_load(line, dst, descriptor, [pseudo::MAP_FD, pseudo::MAP_FD_VALUE])
}

/// `] ll` or `][0] + 0x8 ll`, after the map's number; `kinds` are those of the two.
fn map_load(line: &mut Line, dst: Register, number: i32, kinds: [u8; 2]) -> Result<[Insn; 2]> {
    line.punct("]")?;
    let [kind, upper] = if line.take_punct("[") {
        line.unsigned("0")
            .and_then(|zero| if zero == 0 { Ok(()) } else { Err("only [0] can be loaded".into()) })?;
        line.punct("]")?;
        let offset = if line.is_word("ll") { 0 } else { as_i32(line.signed("an offset")?)? };
        [kinds[1].into(), offset as u32]
    } else {
        [kinds[0].into(), 0]
    };
    line.word("ll")?;
    Ok(wide(dst, kind as u8, u64::from(upper) << 32 | u64::from(number as u32)))
}

fn wide(dst: Register, src: u8, bits: u64) -> [Insn; 2] {
    let first = Insn { opcode: LD_IMM64, dst: dst.number, src, off: 0, imm: bits as u32 as i32 };
    [first, Insn { imm: (bits >> 32) as u32 as i32, ..Insn::default() }]
}

/// `dst OP src` and `dst OP imm`, after the operator.
fn arithmetic(line: &mut Line, dst: Register, operator: &str) -> Result<Insn> {
    let row = ALU_OPERATORS.iter().find(|row| row.2 == operator);
    let (operation, off, _) = *row.ok_or_else(|| format!("`{operator}` is no operator"))?;
    let (bit, src, imm) = operand(line, dst)?;
    Ok(Insn { opcode: dst.alu_class() | operation | bit, dst: dst.number, src, off, imm })
}

/// The second operand: source bit, register, immediate.
fn operand(line: &mut Line, dst: Register) -> Result<(u8, u8, i32)> {
    if let Some(Token::Word(_)) = line.peek() {
        let src = line.register()?;
        src.same_width(dst)?;
        return Ok((source::X, src.number, 0));
    }
    Ok((source::K, 0, immediate(dst, line.signed("a register or a number")?)?))
}

/// The number that an operation on `dst` has in its 32 bits. One of 32 bits needs no sign: 0xffffffff is -1 there.
fn immediate(dst: Register, value: i128) -> Result<i32> {
    match u32::try_from(value) {
        Ok(bits) if dst.letter == 'w' => Ok(bits as i32),
        _ => as_i32(value),
    }
}

/// `be16 r1` and its like, after the `=`.
fn swap(line: &mut Line, dst: Register, word: &str) -> Result<Insn> {
    let digits = word.find(|char: char| char.is_ascii_digit()).unwrap_or(word.len());
    let (name, bits) = word.split_at(digits);
    let opcode = match name {
        "le" => class::ALU | alu::END,
        "be" => class::ALU | alu::END | source::X,
        "bswap" => class::ALU64 | alu::END,
        _ => return Err(format!("`{word}` is neither a register, a number nor an operation")),
    };
    let imm = match bits {
        "16" => 16,
        "32" => 32,
        "64" => 64,
        _ => return Err(format!("`{word}`: the width is 16, 32 or 64")),
    };
    line.next += 1;
    dst.wide()?;
    let again = line.any_word("a register")?;
    same_register(dst, &again)?;
    Ok(Insn { opcode, dst: dst.number, imm, ..Insn::default() })
}

/// `(s8)r2`, after the `=`.
fn sign_extend(line: &mut Line, dst: Register) -> Result<Insn> {
    line.punct("(")?;
    let width = line.any_word("a width")?;
    let off = match width.as_str() {
        "s8" => 8,
        "s16" => 16,
        "s32" if dst.letter == 'r' => 32,
        _ => return Err(format!("`({width})` is no sign extension of a {} register", dst.letter)),
    };
    line.punct(")")?;
    let src = line.register()?;
    src.same_width(dst)?;
    let opcode = dst.alu_class() | alu::MOV | source::X;
    Ok(Insn { opcode, dst: dst.number, src: src.number, off, imm: 0 })
}

/// `*(u64 *)(r1 + 0x8)`, `*(u8 *)skb[0x8]` or `*(u8 *)skb[r1 + 0x8]`, after the `=`.
fn load(line: &mut Line, dst: Register) -> Result<Insn> {
    line.punct("*")?;
    let (bits, sign) = pointer_type(line)?;
    // LLVM writes the result of an unsigned load below 64 bits as a w register when it compiles with alu32.
    if sign || bits == size::DW {
        dst.wide()?;
    }
    if line.is_word("skb") {
        return packet(line, dst, bits, sign);
    }
    let (src, off) = address(line, true)?;
    let mode = if sign { mode::MEMSX } else { mode::MEM };
    if sign && bits == size::DW {
        return Err("there is no sign-extending 64-bit load".into());
    }
    Ok(Insn { opcode: class::LDX | mode | bits, dst: dst.number, src, off, imm: 0 })
}

fn packet(line: &mut Line, dst: Register, bits: u8, sign: bool) -> Result<Insn> {
    line.word("skb")?;
    if dst.number != 0 || sign || bits == size::DW {
        return Err("a packet load is an unsigned one of 8, 16 or 32 bits into r0".into());
    }
    line.punct("[")?;
    let insn = if let Some(Token::Word(_)) = line.peek() {
        let src = line.register()?;
        src.wide()?;
        let imm = match line.peek() {
            Some(Token::Punct("+" | "-")) => as_i32(line.signed("an offset")?)?,
            _ => 0,
        };
        Insn { opcode: class::LD | mode::IND | bits, src: src.number, imm, ..Insn::default() }
    } else {
        let imm = as_i32(line.signed("an offset")?)?;
        Insn { opcode: class::LD | mode::ABS | bits, imm, ..Insn::default() }
    };
    line.punct("]")?;
    Ok(insn)
}

/// `(u64 *)(r10 - 0x8) = r1`, after the first star.
fn store(line: &mut Line) -> Result<Insn> {
    let bits = unsigned_pointer_type(line)?;
    let (dst, off) = address(line, true)?;
    line.punct("=")?;
    if let Some(Token::Word(_)) = line.peek() {
        // LLVM writes the value of a 32-bit or narrower store as a w register when it compiles with alu32.
        let src = line.register()?;
        if src.letter == 'w' && bits == size::DW {
            return Err("a 64-bit store needs an r register".into());
        }
        return Ok(Insn { opcode: class::STX | mode::MEM | bits, dst, src: src.number, off, imm: 0 });
    }
    let imm = as_i32(line.signed("a register or a number")?)?;
    Ok(Insn { opcode: class::ST | mode::MEM | bits, dst, src: 0, off, imm })
}

/// `*(u64 *)(r0 + 0x0) += r1`, after `lock`.
fn lock(line: &mut Line) -> Result<Insn> {
    line.punct("*")?;
    let bits = atomic_pointer_type(line)?;
    let (dst, off) = address(line, true)?;
    let operator = line.operator()?;
    let row = ATOMICS.iter().find(|row| row.1 == operator);
    let (imm, _, _) = *row.ok_or_else(|| format!("`{operator}` is no atomic operation"))?;
    // Without alu32, LLVM writes an r register for 32 bits too.
    let src = line.register()?;
    if src.letter == 'w' && bits == size::DW {
        return Err("a 64-bit atomic operation needs an r register".into());
    }
    Ok(Insn { opcode: class::STX | mode::ATOMIC | bits, dst, src: src.number, off, imm })
}

/// `(u8 *)(r1 + 0x0))`, after `w0 = load_acquire(`.
fn load_acquire(line: &mut Line, result: Register) -> Result<Insn> {
    let bits = unsigned_pointer_type(line)?;
    let (src, off) = address(line, true)?;
    line.punct(")")?;
    half_unless_wide(result, bits)?;
    let opcode = class::STX | mode::ATOMIC | bits;
    Ok(Insn { opcode, dst: result.number, src, off, imm: atomic::LOAD_ACQUIRE })
}

/// `((u8 *)(r1 + 0x0), w2)`, after `store_release`.
fn store_release(line: &mut Line) -> Result<Insn> {
    line.punct("(")?;
    let bits = unsigned_pointer_type(line)?;
    let (dst, off) = address(line, true)?;
    line.punct(",")?;
    let src = line.register()?;
    half_unless_wide(src, bits)?;
    line.punct(")")?;
    let opcode = class::STX | mode::ATOMIC | bits;
    Ok(Insn { opcode, dst, src: src.number, off, imm: atomic::STORE_RELEASE })
}

/// Ordered accesses below 64 bits name a w register, those of 64 bits an r register.
fn half_unless_wide(register: Register, bits: u8) -> Result<()> {
    let letter = if bits == size::DW { 'r' } else { 'w' };
    if register.letter == letter {
        return Ok(());
    }
    Err(format!("`{}{}` has not the width of the memory", register.letter, register.number))
}

/// `atomic_fetch_add((u64 *)(r1 + 0x0), r0)`, `xchg_64(r1 + 0x0, r0)` or `cmpxchg_64(r1 + 0x0, r0, r2)`.
fn fetch(line: &mut Line, result: Register, name: &str) -> Result<Insn> {
    line.next += 1;
    line.punct("(")?;
    if name == LOAD_ACQUIRE {
        return load_acquire(line, result);
    }
    let exchange = match name {
        "xchg_64" => Some((size::DW, atomic::XCHG)),
        "xchg32_32" => Some((size::W, atomic::XCHG)),
        "cmpxchg_64" => Some((size::DW, atomic::CMPXCHG)),
        "cmpxchg32_32" => Some((size::W, atomic::CMPXCHG)),
        _ => None,
    };
    let (bits, imm, (dst, off)) = match exchange {
        Some((bits, imm)) => (bits, imm, address(line, false)?),
        None => {
            let row = ATOMICS.iter().find(|row| row.2 == name);
            let (imm, _, _) = *row.ok_or_else(|| format!("`{name}` is no atomic operation"))?;
            (atomic_pointer_type(line)?, imm | atomic::FETCH, address(line, true)?)
        }
    };
    line.punct(",")?;
    let mut expected = atomic_operand(line, bits)?;
    let mut src = expected;
    if imm == atomic::CMPXCHG {
        line.punct(",")?;
        src = atomic_operand(line, bits)?;
    } else {
        expected = src;
    }
    line.punct(")")?;
    let letter = if bits == size::DW { 'r' } else { 'w' };
    let zero_for_compare = imm != atomic::CMPXCHG || expected == 0;
    if result.letter != letter || result.number != expected || !zero_for_compare {
        return Err(format!("`{name}` gives its result in the register it takes its operand from"));
    }
    Ok(Insn { opcode: class::STX | mode::ATOMIC | bits, dst, src, off, imm })
}

fn atomic_operand(line: &mut Line, bits: u8) -> Result<u8> {
    let register = line.register()?;
    if register.letter == 'r' && bits == size::W || register.letter == 'w' && bits == size::DW {
        return Err(format!("`{}{}` has not the width of the memory", register.letter, register.number));
    }
    Ok(register.number)
}

/// `0x1`, `name`, `pc+0x5` or `btf 0x5`, after `call`. A name that is no helper's and no kernel function's is a label:
/// a function's.
fn call(line: &mut Line) -> Result<(Vec<Insn>, Option<String>)> {
    let insn = |src, imm| Insn { opcode: class::JMP | jmp::CALL, src, imm, ..Insn::default() };
    let one = |insn| Ok((vec![insn], None));
    if line.take_word("pc") {
        return one(insn(pseudo::LOCAL, as_i32(line.signed("a distance")?)?));
    }
    if line.take_word("btf") {
        return one(insn(pseudo::KERNEL, as_i32(line.signed("a BTF id")?)?));
    }
    if let Some(Token::Word(_)) = line.peek() {
        let name = line.any_word("a helper or a label")?;
        return match (helper::by_name(&name), kfunc::by_name(&name)) {
            (Some(proto), _) => one(insn(pseudo::HELPER, proto.id)),
            (None, Some(id)) => one(insn(pseudo::KERNEL, id)),
            (None, None) => Ok((vec![insn(pseudo::LOCAL, 0)], Some(name))),
        };
    }
    one(insn(pseudo::HELPER, as_i32(line.signed("a helper")?)?))
}

/// `r1 == r2 goto +0x5`, after `if`.
fn condition(line: &mut Line) -> Result<(Vec<Insn>, Option<String>)> {
    let dst = line.register()?;
    let operator = line.operator()?;
    let row = COMPARISONS.iter().find(|row| row.1 == operator);
    let (operation, _) = *row.ok_or_else(|| format!("`{operator}` is no comparison"))?;
    let (bit, src, imm) = operand(line, dst)?;
    line.word("goto")?;
    let class = if dst.letter == 'r' { class::JMP } else { class::JMP32 };
    let insn = Insn { opcode: class | operation | bit, dst: dst.number, src, off: 0, imm };
    with_target(insn, line)
}

fn jump(line: &mut Line, opcode: u8) -> Result<(Vec<Insn>, Option<String>)> {
    with_target(Insn { opcode, ..Insn::default() }, line)
}

fn with_target(mut insn: Insn, line: &mut Line) -> Result<(Vec<Insn>, Option<String>)> {
    match target(line)? {
        Target::Label(label) => Ok((vec![insn], Some(label))),
        Target::Distance(distance) => {
            set_distance(&mut insn, distance)?;
            Ok((vec![insn], None))
        }
    }
}

fn target(line: &mut Line) -> Result<Target> {
    let target = match line.peek() {
        Some(Token::Word(label)) => {
            let label = label.clone();
            line.next += 1;
            Target::Label(label)
        }
        _ => {
            let distance = line.signed("a label or a distance")?;
            Target::Distance(i64::try_from(distance).map_err(|_| format!("distance {distance} is too far"))?)
        }
    };
    // llvm-objdump names the target after its distance: `goto +0x5 <LBB0_2>`.
    if line.take_punct("<") {
        line.any_word("a label")?;
        if line.take_punct("+") {
            line.unsigned("an offset")?;
        }
        line.punct(">")?;
    }
    Ok(target)
}

fn is_call(insn: Insn) -> bool {
    insn.opcode == class::JMP | jmp::CALL
}

/// Only the long jump, a call and the address of a function have a 32-bit distance, in `imm`.
fn set_distance(insn: &mut Insn, distance: i64) -> Result<()> {
    let is_function = insn.opcode == LD_IMM64;
    if insn.opcode == class::JMP32 | jmp::JA || is_call(*insn) || is_function {
        insn.imm = as_i32(distance.into())?;
    } else {
        insn.off =
            i16::try_from(distance).map_err(|_| format!("distance {distance} does not fit in 16 bits"))?;
    }
    Ok(())
}

/// `(u64 *)` or `(s8 *)`: size bits, sign-extending.
fn pointer_type(line: &mut Line) -> Result<(u8, bool)> {
    line.punct("(")?;
    let name = line.any_word("a width")?;
    line.punct("*")?;
    line.punct(")")?;
    let row = WIDTHS.iter().find(|row| row.1 == name || row.2 == name);
    let row = row.ok_or_else(|| format!("`{name}` is no width (u8 u16 u32 u64 s8 s16 s32)"))?;
    Ok((row.0, row.2 == name))
}

fn unsigned_pointer_type(line: &mut Line) -> Result<u8> {
    match pointer_type(line)? {
        (bits, false) => Ok(bits),
        (_, true) => Err("a store has an unsigned width".into()),
    }
}

fn atomic_pointer_type(line: &mut Line) -> Result<u8> {
    match unsigned_pointer_type(line)? {
        bits @ (size::W | size::DW) => Ok(bits),
        _ => Err("an atomic operation is 32 or 64 bits wide".into()),
    }
}

/// `(r10 - 0x8)`, or without parentheses.
fn address(line: &mut Line, parentheses: bool) -> Result<(u8, i16)> {
    if parentheses {
        line.punct("(")?;
    }
    let base = line.register()?;
    base.wide()?;
    let off = match line.peek() {
        Some(Token::Punct("+" | "-")) => line.signed("an offset")?,
        _ => 0,
    };
    if parentheses {
        line.punct(")")?;
    }
    Ok((base.number, i16::try_from(off).map_err(|_| format!("offset {off} does not fit in 16 bits"))?))
}

fn same_register(dst: Register, word: &str) -> Result<()> {
    if as_register(word) == Some(dst) {
        return Ok(());
    }
    Err(format!("the operand must be `{}{}` again, not `{word}`", dst.letter, dst.number))
}

fn as_i32(value: i128) -> Result<i32> {
    i32::try_from(value).map_err(|_| format!("{value} does not fit in 32 bits with sign"))
}

fn as_bits64(value: i128) -> Result<u64> {
    let bits = u64::try_from(value).or_else(|_| i64::try_from(value).map(|value| value as u64));
    bits.map_err(|_| format!("{value} does not fit in 64 bits"))
}

/// A register as written: r3 or w3.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Register {
    pub(super) letter: char,
    pub(super) number: u8,
}

pub(super) fn as_register(word: &str) -> Option<Register> {
    let letter = word.chars().next().filter(|letter| matches!(letter, 'r' | 'w'))?;
    let digits = &word[1..];
    let canonical = digits.len() == 1 || digits == "10";
    let number = digits.parse().ok().filter(|number| *number <= 10 && canonical)?;
    Some(Register { letter, number })
}

impl Register {
    fn alu_class(self) -> u8 {
        if self.letter == 'r' { class::ALU64 } else { class::ALU }
    }

    fn wide(self) -> Result<()> {
        if self.letter == 'r' {
            Ok(())
        } else {
            Err(format!("`w{}` must be an r register here", self.number))
        }
    }

    fn same_width(self, other: Register) -> Result<()> {
        if self.letter == other.letter {
            return Ok(());
        }
        let Register { letter, number } = self;
        Err(format!("`{letter}{number}` and `{}{}` differ in width", other.letter, other.number))
    }
}
