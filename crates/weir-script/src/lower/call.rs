//! Calls: one arm for each row of [`builtin::FUNCTIONS`].

use weir_event::{Action, Field, PrintTo, RECORD_HEADER_BYTES, Type, Word, signal};
use weir_ir::{BinOp, Builtin, CmpOp, MapId, Op, Value};

use crate::ast::{Expr, ExprKind, MapRef};
use crate::builtin::{self, FunctionKind, Prints};
use crate::check::{constant, constant_string, stack_form, stack_of};
use crate::format::conversions;
use crate::kernel;
use crate::lower::Lowering;
use crate::lower::expr::Operand;
use crate::types;

impl Lowering<'_> {
    /// An expression whose value nobody wants.
    pub(super) fn effect_of(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Call { function, args } => {
                if !self.call_effect(expr, &function.text, args) {
                    self.call_value(expr, &function.text, args);
                }
            }
            ExprKind::Ternary { condition, then, otherwise } => {
                let scope = self.variables.len();
                let (yes, no) = self.condition(condition);
                self.merge(yes, scope, &[]);
                self.effect_of(then);
                let mut ends: Vec<_> = self.jump(Vec::new()).into_iter().collect();
                self.merge(no, scope, &[]);
                self.effect_of(otherwise);
                ends.extend(self.jump(Vec::new()));
                self.merge(ends, scope, &[]);
            }
            ExprKind::Block { body, value } => {
                let scope = self.variables.len();
                self.stmts(body);
                if let Some(value) = value
                    && self.blocks.is_reachable()
                {
                    self.effect_of(value);
                }
                self.variables.truncate(scope);
            }
            ExprKind::Inlined { body, .. } => {
                self.inlined(body);
            }
            _ => {
                self.expr(expr);
            }
        }
    }

    /// A call that gives a value.
    pub(super) fn call_value(&mut self, call: &Expr, name: &str, args: &[Expr]) -> Operand {
        match builtin::function(name).map(|row| row.kind) {
            None if name == kernel::KSTACK => self.kstack(args),
            None if name == kernel::KSYM => {
                let address = self.expr(&args[0]).value();
                Operand::one(self.blocks.value(Op::KernelSymbol { address }, Type::Usym), Type::Usym)
            }
            None if name == kernel::KADDR => {
                // SANITY: the check wants a name in quotes, and has looked it up.
                let ExprKind::Str(symbol) = &args[0].kind else { unreachable!("a checked symbol is a text") };
                self.int(self.checked.kernel_symbols[symbol] as i64, Type::U64)
            }
            None if kernel::is_anywhere(name) => self.expr(&args[0]),
            Some(FunctionKind::Str) => self.str(call, args),
            Some(FunctionKind::HasKey) => {
                let map = self.map_id(&map_arg(&args[0]).name.text);
                let key = self.key(map, &args[1..]);
                Operand::one(self.blocks.value(Op::MapHas { map, key }, Type::I64), Type::I64)
            }
            Some(FunctionKind::Delete) => {
                let (map, key) = self.deleted(args);
                let had = self.blocks.value(Op::MapHas { map, key: key.clone() }, Type::I64);
                self.blocks.effect(Op::MapDelete { map, key });
                Operand::one(had, Type::I64)
            }
            Some(FunctionKind::Len) if let Some(args) = stack_of(&args[0]) => {
                // SANITY: the check refuses other arguments.
                let form = stack_form(args, &self.checked.known).expect("a checked stack has a form");
                Operand::one(self.blocks.value(Op::StackLength(form.frames), Type::I64), Type::I64)
            }
            Some(FunctionKind::Len) => {
                let map = self.map_id(&map_arg(&args[0]).name.text);
                Operand::one(self.count_entries(call.span, map), Type::I64)
            }
            Some(FunctionKind::Strncmp) => {
                let (left, right) = (self.expr(&args[0]), self.expr(&args[1]));
                // SANITY: the check refuses what is no constant.
                match constant(&args[2], &self.checked.known).expect("a checked constant") as u32 {
                    0 => self.int(0, Type::I64),
                    first => self.strings_equal(&left, &right, true, Some(first)),
                }
            }
            Some(FunctionKind::Strcontains) => self.strcontains(args),
            Some(FunctionKind::Strstr) => self.strstr(args),
            Some(FunctionKind::StrConcat) => self.str_concat(args),
            Some(FunctionKind::Strcap) => self.strcap(call, &args[0]),
            Some(FunctionKind::Memcmp) => self.memcmp(args),
            Some(FunctionKind::Strerror) => self.word(&args[0], Word::Errno),
            Some(FunctionKind::SignalName) => self.word(&args[0], Word::Signal),
            Some(FunctionKind::SyscallName) => self.word(&args[0], Word::Syscall),
            Some(FunctionKind::Strftime) => {
                let ExprKind::Str(format) = &args[0].kind else {
                    unreachable!("the check wants a literal format")
                };
                self.word(&args[1], Word::Time { format: format.clone() })
            }
            Some(FunctionKind::Ntop) => self.ntop(args),
            Some(FunctionKind::Pton) => self.pton(call, &args[0]),
            Some(FunctionKind::CgroupPath) => self.word(&args[0], Word::Cgroup),
            Some(FunctionKind::Cgroupid) => {
                let number = self.checked.sizes[&call.span.start];
                self.int(number as i64, Type::U64)
            }
            Some(FunctionKind::Buf) => self.buf(args),
            Some(FunctionKind::Macaddr) => self.macaddr(&args[0]),
            Some(FunctionKind::Bswap) => {
                let bits = self.bits(&args[0]);
                let operand = self.expr(&args[0]);
                self.swapped(&operand, bits)
            }
            Some(FunctionKind::Reg) => {
                let name = constant_string(&args[0], &self.checked.known);
                // SANITY: the check refuses other names.
                let number =
                    name.and_then(weir_ir::isa::native::register).expect("a checked register has a number");
                Operand::one(self.blocks.value(Op::Builtin(Builtin::Register(number)), Type::U64), Type::U64)
            }
            Some(FunctionKind::Usym) => {
                let address = self.expr(&args[0]).value();
                Operand::one(self.blocks.value(Op::UserSymbol { address }, Type::Usym), Type::Usym)
            }
            Some(FunctionKind::Ustack) => self.ustack(args),
            Some(FunctionKind::Strlen) => {
                let text = self.expr(&args[0]).value();
                Operand::one(self.blocks.value(Op::StrLen(text), Type::U64), Type::U64)
            }
            Some(FunctionKind::Getopt) => {
                if let Some(text) = constant_string(call, &self.checked.known) {
                    let text = text.to_owned();
                    return self.string(&text, None);
                }
                // SANITY: the check wants one of the two.
                let value = constant(call, &self.checked.known).expect("a checked parameter is a constant");
                self.int(value as i64, Type::I64)
            }
            Some(FunctionKind::Is(_)) => {
                let holds = self.checked.sizes[&call.span.start];
                self.int(holds as i64, Type::I64)
            }
            None if name == "nsecs" && !args.is_empty() => {
                let op = match &args[0].kind {
                    ExprKind::Name(clock) if clock == "boot" => Builtin::BootNsecs,
                    ExprKind::Name(clock) if clock != "monotonic" => Builtin::TaiNsecs,
                    _ => Builtin::Nsecs,
                };
                Operand::one(self.blocks.value(Op::Builtin(op), Type::U64), Type::U64)
            }
            None if name == "comm" && !args.is_empty() => self.word(&args[0], Word::Process),
            None if let Some(value) = self.named(name) => value,
            None => self.builtin(name),
            Some(other) => unreachable!("{other:?} gives no value"),
        }
    }

    /// A call that gives none. False if it gives one.
    fn call_effect(&mut self, call: &Expr, name: &str, args: &[Expr]) -> bool {
        let Some(row) = builtin::function(name) else { return false };
        match row.kind {
            kind if kind.gives_value() => return false,
            FunctionKind::Printf(prints) => {
                let place = || self.place_text(call);
                let to = match prints {
                    Prints::Output => PrintTo::Output,
                    Prints::Error => PrintTo::Error(place()),
                    Prints::Warning => PrintTo::Warning(place()),
                    Prints::Command => PrintTo::Command,
                    Prints::File => PrintTo::File(self.checked.max_cat_bytes),
                };
                self.printf(call, args, to);
            }
            FunctionKind::Assert => self.assert(call, &args[0], &args[1]),
            FunctionKind::Signal { to_thread } => {
                let named = constant_string(&args[0], &self.checked.known).and_then(signal::number);
                let number = match named {
                    Some(number) => self.number(number as i64),
                    None => self.expr(&args[0]).value(),
                };
                self.blocks.effect(Op::Signal { number, to_thread });
            }
            FunctionKind::StaticAssert | FunctionKind::Fail => {}
            FunctionKind::Print => self.print(call, args),
            FunctionKind::Join => self.join(call, args),
            FunctionKind::Delete => {
                let (map, key) = self.deleted(args);
                self.blocks.effect(Op::MapDelete { map, key });
            }
            FunctionKind::Clear => {
                let map = self.map_id(&map_arg(&args[0]).name.text).0 as usize;
                self.emit(call, Action::ClearMap { map }, Vec::new());
            }
            FunctionKind::Zero => {
                let map = self.map_id(&map_arg(&args[0]).name.text).0 as usize;
                self.emit(call, Action::ZeroMap { map }, Vec::new());
            }
            FunctionKind::Time => {
                let format = match args.first().map(|format| &format.kind) {
                    Some(ExprKind::Str(format)) => format.clone(),
                    _ => "%H:%M:%S\n".to_owned(),
                };
                self.emit(call, Action::Time { format }, Vec::new());
            }
            FunctionKind::Exit => {
                let code = args.first().map(|code| self.expr(code));
                let field = code.as_ref().map(|code| field(&types::plain(&code.ty)));
                self.emit(
                    call,
                    Action::Exit { code: field },
                    code.map(|code| code.values).unwrap_or_default(),
                );
                self.blocks.finish();
            }
            other => unreachable!("{other:?} gives a value"),
        }
        true
    }

    /// The map and the key that `delete` names.
    fn deleted(&mut self, args: &[Expr]) -> (MapId, Vec<Value>) {
        let map = map_arg(&args[0]);
        let id = self.map_id(&map.name.text);
        let key = self.key(id, if args.len() > 1 { &args[1..] } else { &map.keys });
        (id, key)
    }

    /// A number that prints as what it stands for.
    fn word(&mut self, number: &Expr, word: Word) -> Operand {
        Operand::one(self.expr(number).value(), Type::Word(word))
    }

    pub(super) fn ustack(&mut self, args: &[Expr]) -> Operand {
        // SANITY: the check refuses other arguments.
        let form = stack_form(args, &self.checked.known).expect("a checked stack has a form");
        let ty = Type::Ustack(form);
        Operand::one(self.blocks.value(Op::UserStack(form), ty.clone()), ty)
    }

    /// The kernel's.
    pub(super) fn kstack(&mut self, args: &[Expr]) -> Operand {
        // SANITY: as above.
        let form = stack_form(args, &self.checked.known).expect("a checked stack has a form");
        let ty = Type::Ustack(form);
        Operand::one(self.blocks.value(Op::KernelStack(form), ty.clone()), ty)
    }

    /// `script.bt:1:9-62`, as bpftrace writes the place of a call.
    fn place_text(&self, call: &Expr) -> String {
        if let Some(place) = self.origins.elsewhere(call.span) {
            return place;
        }
        let span = self.origins.place(call.span);
        let text = &self.file.text;
        let before = &text[..span.start as usize];
        let line = 1 + before.matches('\n').count();
        let column = 1 + before.chars().rev().take_while(|c| *c != '\n').count();
        let width = text[span.start as usize..span.end as usize].chars().take_while(|c| *c != '\n').count();
        format!("{}:{line}:{column}-{}", self.file.name, column + width)
    }

    /// Where the condition is 0, an error is reported, and the run ends.
    fn assert(&mut self, call: &Expr, condition: &Expr, text: &Expr) {
        let scope = self.variables.len();
        let (holds, fails) = self.condition(condition);
        self.merge(fails, scope, &[]);
        let operand = self.expr(text);
        let to = PrintTo::Error(self.place_text(call));
        let action = Action::Printf { to, format: "%s".to_owned(), args: vec![field(&operand.ty)] };
        self.emit(call, action, operand.values);
        let code = self.int(1, Type::I64);
        // Its second action; nothing else has this place.
        let exit = Action::Exit { code: Some(field(&Type::I64)) };
        self.emit_at(call.span.start + 1, exit, code.values);
        self.blocks.finish();
        self.merge(holds, scope, &[]);
    }

    fn printf(&mut self, call: &Expr, args: &[Expr], to: PrintTo) {
        let ExprKind::Str(format) = &args[0].kind else { unreachable!("the check wants a literal format") };
        let mut fields = Vec::new();
        let mut values = Vec::new();
        // SANITY: the check has read the format.
        let conversions = conversions(format).expect("a checked format");
        for (arg, conversion) in args[1..].iter().zip(conversions) {
            let mut operand = self.expr(arg);
            // As C gives it to a function: at least an `int`.
            let bits = self.bits(arg).max(32);
            if conversion.shows_bits() && bits < 64 && operand.ty == Type::I64 {
                operand = self.without_sign(&operand, bits);
            }
            if conversion.shows_int() && self.is_register(arg) {
                operand = self.int_of_register(&operand);
            }
            values.push(operand.value());
            fields.push(field(&operand.ty));
        }
        place(&mut fields);
        self.emit(call, Action::Printf { to, format: format.clone(), args: fields }, values);
    }

    fn print(&mut self, call: &Expr, args: &[Expr]) {
        let ExprKind::Map(map) = &args[0].kind else {
            let operand = self.expr(&args[0]);
            self.emit(call, Action::PrintValue { value: field(&operand.ty) }, operand.values);
            return;
        };
        let id = self.map_id(&map.name.text);
        if map.keys.is_empty() {
            let number = |index: usize| {
                // SANITY: the check wants constants from 0 to u32::MAX.
                args.get(index)
                    .map_or(0, |arg| constant(arg, &self.checked.known).expect("a constant") as u64)
            };
            let action = Action::PrintMap { map: id.0 as usize, top: number(1), div: number(2) };
            self.emit(call, action, Vec::new());
            return;
        }
        let values = self.key(id, &map.keys);
        // What has a value is printed as it is now, not as it is when the record is read.
        if types::readable(&self.checked.maps[id.0 as usize].value).is_some() {
            let operand = self.read_map(id, values);
            self.emit(call, Action::PrintValue { value: field(&operand.ty) }, operand.values);
            return;
        }
        // SANITY: the check refuses a key for a map without keys.
        let key = self.checked.maps[id.0 as usize].key.as_ref().expect("a map with keys");
        self.emit(call, Action::PrintMapKey { map: id.0 as usize, key: field(key) }, values);
    }

    fn str(&mut self, call: &Expr, args: &[Expr]) -> Operand {
        if let Some(text) = constant_string(call, &self.checked.known) {
            let text = text.to_string();
            return self.string(&text, None);
        }
        let most = u64::from(self.checked.max_strlen) - 1;
        let address = self.expr(&args[0]);
        if let Type::Str { .. } = address.ty {
            return address;
        }
        let address = address.value();
        let length = args.get(1).map(|length| constant(length, &self.checked.known));
        let (bytes, limit) = match length {
            // The length is known only at run time; the type bounds it.
            Some(None) => {
                let length = self.expr(&args[1]).value();
                (types::string_bytes(most), Some(self.without_end(length)))
            }
            known => {
                let without_end = |length: i128| (length as u64).saturating_sub(1).min(most);
                let length = known.flatten().map_or(most, without_end);
                let bytes = types::string_bytes(length);
                let exact = u64::from(bytes) == length + 1;
                (bytes, (!exact).then(|| self.int(length as i64, Type::U64).value()))
            }
        };
        let ty = Type::Str { bytes };
        Operand::one(self.blocks.value(Op::ReadStr { address, limit }, ty.clone()), ty)
    }

    /// Characters in so many bytes, the last of which is the end: none in none.
    fn without_end(&mut self, bytes: Value) -> Value {
        let zero = self.int(0, Type::U64).value();
        let end = self.blocks.value(Op::Cmp(CmpOp::Ne, bytes, zero), Type::I64);
        self.blocks.value(Op::Bin(BinOp::Sub, bytes, end), Type::U64)
    }

    pub(super) fn emit(&mut self, call: &Expr, action: Action, args: Vec<Value>) {
        self.emit_at(call.span.start, action, args);
    }

    /// `start`: of what the text has there.
    pub(super) fn emit_at(&mut self, start: u32, action: Action, args: Vec<Value>) {
        let action = self.actions.intern(start, action);
        self.blocks.effect(Op::Emit { action, args });
    }
}

/// The only field of a record.
pub(super) fn field(ty: &Type) -> Field {
    Field { offset: RECORD_HEADER_BYTES, ty: ty.clone() }
}

/// Puts the fields of a record one behind the other, the longest string last: the record may end with it.
fn place(fields: &mut [Field]) {
    let length = |field: &Field| if let Type::Str { bytes } = field.ty { bytes } else { 0 };
    let last = (0..fields.len()).max_by_key(|index| length(&fields[*index]));
    let others = (0..fields.len()).filter(|index| Some(*index) != last);
    let mut offset = RECORD_HEADER_BYTES;
    for index in others.chain(last) {
        fields[index].offset = offset;
        offset += fields[index].ty.bytes();
    }
}

fn map_arg(arg: &Expr) -> &MapRef {
    match &arg.kind {
        ExprKind::Map(map) => map,
        _ => unreachable!("the check wants a map here"),
    }
}
