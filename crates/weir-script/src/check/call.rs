//! Calls: one arm for each row of [`builtin::FUNCTIONS`].

use weir_event::{RECORD_HEADER_BYTES, STACK_FRAMES_MAX, StackForm, StackMode, Type, Word, signal};
use weir_source::{Diagnostic, Span};

use crate::ast::{Expr, ExprKind, MapRef, Name};
use crate::builtin::{self, FunctionKind, Prints};
use crate::check::map::Key;
use crate::check::{Checker, Known, Parameter, constant, constant_string, parameter};
use crate::format;
use crate::limits;
use crate::types::{self, Ty, describe_one};
use crate::unsupported::{self, Kind};
use weir_source::nearest;

impl Checker<'_> {
    pub(super) fn call(&mut self, call: &Expr, function: &Name, args: &[Expr]) -> Ty {
        let name = function.text.as_str();
        if let Some(row) = builtin::function(name) {
            if !self.arity(function, args, row.arity, row.signature) {
                args.iter().for_each(|arg| self.look_over(arg));
                return if row.kind.gives_value() { Ty::Unknown } else { Ty::None };
            }
            let acts =
                matches!(row.kind, FunctionKind::Printf(Prints::Command) | FunctionKind::Signal { .. });
            if acts && !self.known.allows_unsafe {
                let message = format!("`{name}` is an unsafe function being used in safe mode");
                self.error(call.span, &message, "`--unsafe` lets a script act on the system");
            }
            return match row.kind {
                FunctionKind::Printf(_) => self.printf(name, args),
                FunctionKind::Strlen => {
                    if let Some(ty) = self.value(&args[0])
                        && !matches!(ty, Type::Str { .. })
                    {
                        let message =
                            format!("`strlen` takes a string, not {}", describe_one(&ty, &self.types));
                        self.error(args[0].span, &message, "read it with `str(…)`");
                    }
                    Ty::Value(Type::U64)
                }
                FunctionKind::Getopt => self.getopt(call, args),
                FunctionKind::Is(what) => self.is(call, &args[0], what),
                FunctionKind::Assert => {
                    self.condition(&args[0], "the condition of `assert`");
                    self.assertion_text(&args[1]);
                    Ty::None
                }
                FunctionKind::StaticAssert => self.static_assert(args),
                FunctionKind::Fail => self.fail(call.span, args),
                FunctionKind::Print => self.print(args),
                FunctionKind::Str => self.str(call, args),
                FunctionKind::Delete => self.delete(args),
                FunctionKind::HasKey => self.has_key(args),
                FunctionKind::Len => self.len(args),
                FunctionKind::Clear | FunctionKind::Zero => self.whole_map(name, &args[0]),
                FunctionKind::Exit => self.exit(args),
                FunctionKind::Time => self.time(args),
                FunctionKind::Strncmp => self.strncmp(args),
                FunctionKind::Strcontains | FunctionKind::Strstr => {
                    self.strings(name, "looks in strings, not in", args);
                    Ty::Value(Type::I64)
                }
                FunctionKind::StrConcat => self.str_concat(args),
                FunctionKind::Strcap => self.strcap(call, &args[0]),
                FunctionKind::Memcmp => self.memcmp(args),
                FunctionKind::Join => self.join(call, args),
                FunctionKind::Strerror => self.word(name, &args[0], Word::Errno),
                FunctionKind::SignalName => self.word(name, &args[0], Word::Signal),
                FunctionKind::Signal { .. } => self.signal(call, name, &args[0]),
                FunctionKind::SyscallName => self.word(name, &args[0], Word::Syscall),
                FunctionKind::Strftime => self.strftime(args),
                FunctionKind::Ntop => self.ntop(args),
                FunctionKind::Pton => self.pton(call, &args[0]),
                FunctionKind::Cgroupid => self.cgroupid(call, &args[0]),
                FunctionKind::CgroupPath => self.cgroup_path(name, args),
                FunctionKind::Find => {
                    args.iter().for_each(|arg| self.look_over(arg));
                    let message = "`find` takes a map without a key, a key, and a variable";
                    self.error(call.span, message, "write `let $value; if (find(@map, key, $value)) { … }`");
                    Ty::Value(Type::I64)
                }
                FunctionKind::Buf => self.buf(call, args),
                FunctionKind::Macaddr => self.macaddr(&args[0]),
                FunctionKind::Bswap => {
                    self.integer(&args[0], "`bswap`");
                    Ty::Value(Type::U64)
                }
                FunctionKind::Reg => self.reg(call, args),
                FunctionKind::Usym => self.usym(call, &args[0]),
                FunctionKind::Ustack => self.ustack(call.span, args),
            };
        }
        if builtin::aggregation(name).is_some() {
            let message = format!("`{name}()` must be assigned directly to a map");
            self.error(call.span, &message, &format!("write `@name = {name}(…)`"));
            args.iter().for_each(|arg| self.look_over(arg));
            return Ty::Unknown;
        }
        if let Some(row) = builtin::variable(name) {
            return self.builtin_call(row, function, args);
        }
        if args.is_empty() && self.known.named(name).is_some() {
            return self.name(name, call.span);
        }
        if let Some(ty) = self.kernel_name(function, args) {
            return ty;
        }
        args.iter().for_each(|arg| self.look_over(arg));
        self.unknown_function(function);
        Ty::Unknown
    }

    fn reg(&mut self, call: &Expr, args: &[Expr]) -> Ty {
        self.in_target("reg", call.span);
        if !self.has_kernel_registers(call.span) {
            return Ty::Unknown;
        }
        let names = || weir_ir::isa::native::REGISTERS.iter().map(|(name, _)| *name);
        let Some(name) = constant_string(&args[0], self.known) else {
            let message = "the name of a register must be a string literal";
            self.error(args[0].span, message, "such as `reg(\"ax\")`");
            return Ty::Unknown;
        };
        if weir_ir::isa::native::register(name).is_none() {
            let message = format!("there is no register `{}`", name.escape_debug());
            let all = || format!("there are {}", names().collect::<Vec<_>>().join(", "));
            let hint = nearest(name, names()).map_or_else(all, |near| format!("did you mean `{near}`?"));
            self.error(args[0].span, &message, &hint);
            return Ty::Unknown;
        }
        Ty::Value(Type::U64)
    }

    fn signal(&mut self, call: &Expr, function: &str, number: &Expr) -> Ty {
        self.in_target(function, call.span);
        if let Some(name) = constant_string(number, self.known) {
            if signal::number(name).is_none() {
                let message = format!("{} is not a valid signal", weir_source::printable(name));
                let hint = match nearest(&name.to_uppercase(), signal::names()) {
                    Some(near) => format!("did you mean \"{near}\"?"),
                    None => "signal(7) lists the names; others are numbers".to_string(),
                };
                self.error(number.span, &message, &hint);
            }
            return Ty::None;
        }
        self.integer(number, &format!("`{function}`"));
        let in_range = |value: &i128| (1..=i128::from(signal::NUMBER_MAX)).contains(value);
        if let Some(value) = constant(number, self.known).filter(|value| !in_range(value)) {
            let message = format!("{value} is not a valid signal, allowed range: [1,{}]", signal::NUMBER_MAX);
            self.error(number.span, &message, "such as `signal(\"SIGUSR1\")`");
        }
        Ty::None
    }

    fn usym(&mut self, call: &Expr, address: &Expr) -> Ty {
        self.in_target("usym", call.span);
        self.integer(address, "`usym`");
        Ty::Value(Type::Usym)
    }

    /// `ustack`, with and without brackets.
    pub(super) fn ustack(&mut self, span: Span, args: &[Expr]) -> Ty {
        self.in_target("ustack", span);
        match stack_form(args, self.known) {
            Ok(form) => Ty::Value(Type::Ustack(form)),
            Err((at, message, hint)) => {
                if args[at].kind != ExprKind::Invalid {
                    self.error(args[at].span, &message, hint);
                }
                Ty::Unknown
            }
        }
    }

    fn time(&mut self, args: &[Expr]) -> Ty {
        if let Some(format) = args.first()
            && !matches!(format.kind, ExprKind::Str(_) | ExprKind::Invalid)
        {
            let message = "the format of `time` must be a string literal";
            self.error(format.span, message, "such as `time(\"%H:%M:%S\\n\")`");
        }
        Ty::None
    }

    /// A number that prints as what it stands for.
    pub(super) fn word(&mut self, function: &str, number: &Expr, word: Word) -> Ty {
        self.integer(number, &format!("`{function}`"));
        Ty::Value(Type::Word(word))
    }

    fn strftime(&mut self, args: &[Expr]) -> Ty {
        self.integer(&args[1], "`strftime`");
        let ExprKind::Str(format) = &args[0].kind else {
            if args[0].kind != ExprKind::Invalid {
                let message = "the format of `strftime` must be a string literal";
                self.error(args[0].span, message, "such as `strftime(\"%H:%M:%S\", nsecs)`");
            }
            return Ty::Unknown;
        };
        Ty::Value(Type::Word(Word::Time { format: format.clone() }))
    }

    fn getopt(&mut self, call: &Expr, args: &[Expr]) -> Ty {
        let ExprKind::Str(name) = &args[0].kind else {
            self.look_over(&args[0]);
            let message = "the name of the parameter must be a string literal";
            self.error(args[0].span, message, "write `getopt(\"name\", 5)`");
            return Ty::Unknown;
        };
        self.named.insert(name.clone());
        let known = self.known;
        match parameter(args, known) {
            Some(Parameter::Number(_)) => Ty::Value(Type::I64),
            Some(Parameter::Text(text)) => self.string_constant(text, call.span),
            Some(Parameter::Wrong(wanted)) => {
                self.error(
                    call.span,
                    &format!("the parameter `--{name}` is to be {wanted}"),
                    "as its default is",
                );
                Ty::Unknown
            }
            None => {
                let message = "the default of a parameter must be a number, a string, true or false";
                self.error(
                    args.get(1).map_or(call.span, |default| default.span),
                    message,
                    "write `getopt(\"name\", 5)`",
                );
                Ty::Unknown
            }
        }
    }

    fn assertion_text(&mut self, arg: &Expr) {
        let Some(ty) = self.value(arg) else { return };
        if !matches!(ty, Type::Str { .. }) {
            let message = format!("the text of `assert` is a string, not {}", describe_one(&ty, &self.types));
            self.error(arg.span, &message, "write `assert(condition, \"text\")`");
        }
    }

    fn printf(&mut self, name: &str, args: &[Expr]) -> Ty {
        let (format, values) = (&args[0], &args[1..]);
        let types: Vec<Option<Type>> = values.iter().map(|value| self.value(value)).collect();
        let ExprKind::Str(text) = &format.kind else {
            if format.kind != ExprKind::Invalid {
                let hint = format!("write `{name}(\"%s\\n\", …)`");
                self.error(format.span, &format!("the format of `{name}` must be a string literal"), &hint);
            }
            return Ty::None;
        };
        let conversions = match format::conversions(text) {
            Ok(conversions) => conversions,
            Err(message) => {
                self.error(format.span, &message, "conversions are %d %i %u %x %X %o %c %p %f %e %g %s %r");
                return Ty::None;
            }
        };
        if conversions.len() != values.len() {
            self.printf_count(format.span, conversions.len(), values);
        }
        for (position, ((conversion, ty), value)) in conversions.iter().zip(&types).zip(values).enumerate() {
            let Some(ty) = ty else { continue };
            if !conversion.takes(ty) {
                let message = format!(
                    "argument {} of `{name}` is {}, but `%{}` takes {}",
                    position + 1,
                    describe_one(ty, &self.types),
                    conversion.letter,
                    conversion.wants()
                );
                let hint = match ty {
                    Type::Int { .. } => "print it with `%d`, or read it as an address with `str(…)`",
                    Type::Double => "print it with `%f`, `%e` or `%g`, or cast it: `(int64)farg0`",
                    Type::Tuple(_) => "print its parts: `$t.0`",
                    Type::Record(_) => "print its parts: `$r.name`",
                    Type::Buffer { .. } => "print it with `%r`, `%rx` or `%rh`",
                    Type::Object { .. } => "name its members, or print all of it with `print`",
                    _ => "print it with `%s`",
                };
                let diagnostic = Diagnostic::error(value.span, message).with_label(format.span, "the format");
                self.push(diagnostic.with_hint(hint));
            }
        }
        let bytes: u32 = types.iter().flatten().map(Type::bytes).sum::<u32>() + RECORD_HEADER_BYTES;
        if bytes > limits::VALUE_BYTES_MAX {
            let message =
                format!("the arguments have {bytes} bytes, the limit is {}", limits::VALUE_BYTES_MAX);
            self.error(format.span, &message, "read shorter strings: `str(p, n)`");
        }
        Ty::None
    }

    fn printf_count(&mut self, format: Span, expected: usize, values: &[Expr]) {
        let message = format!("the format takes {}, but {} given", arguments(expected), is(values.len()));
        match values.get(expected) {
            Some(extra) => {
                let diagnostic = Diagnostic::error(extra.span, message).with_label(format, "the format");
                self.push(diagnostic.with_hint("add a conversion such as `%d`, or remove the argument"));
            }
            None => self.error(format, &message, "add the argument, or write `%%` for a per cent sign"),
        }
    }

    fn print(&mut self, args: &[Expr]) -> Ty {
        match &args[0].kind {
            ExprKind::Map(map) if map.keys.is_empty() => {
                if let Some(index) = self.map_index(map) {
                    self.known_value(index, map.name.span);
                }
                for (arg, what) in args[1..].iter().zip(["top", "div"]) {
                    let in_range = |value: &i128| (0..=i128::from(u32::MAX)).contains(value);
                    if constant(arg, self.known).filter(in_range).is_none() && arg.kind != ExprKind::Invalid {
                        let message =
                            format!("`{what}` of `print` must be a constant from 0 to {}", u32::MAX);
                        self.error(arg.span, &message, "such as `print(@name, 10)`");
                    }
                }
            }
            ExprKind::Map(map) => {
                if let Some(index) = self.keyed_use(map) {
                    self.known_value(index, map.name.span);
                }
                self.no_more_args(args, "an entry of a map");
            }
            _ => {
                self.value(&args[0]);
                self.no_more_args(args, "a value");
            }
        }
        Ty::None
    }

    fn no_more_args(&mut self, args: &[Expr], what: &str) {
        if let Some(extra) = args.get(1) {
            let message = format!("`print` of {what} takes no further argument");
            self.error(extra.span, &message, "only a whole map has `top` and `div`");
        }
    }

    fn str(&mut self, call: &Expr, args: &[Expr]) -> Ty {
        let max = self.settings.max_strlen;
        let whole = types::string_bytes(u64::from(max) - 1);
        if let Some(text) = constant_string(call, self.known) {
            return self.param_string(text, args[0].span);
        }
        let address = self.value(&args[0]);
        if let (Some(ty @ Type::Str { .. }), true, 1) = (&address, args[0].is_text_place(), args.len()) {
            // An array of characters is a string already, as is one of Rust's.
            return Ty::Value(ty.clone());
        }
        address.map(|ty| self.integer_of(ty, args[0].span, "`str`"));
        let bytes = match args.get(1) {
            None => whole,
            Some(length) => match constant(length, self.known) {
                Some(value) if value < 0 => {
                    let message = format!("the length of `str` cannot be negative: {value}");
                    self.error(length.span, &message, "it is the number of bytes, the end included");
                    whole
                }
                Some(value) if value > i128::from(max) => {
                    let message = format!("the length {value} is above the limit of {max}");
                    self.warning(length.span, &message, "raise it with `config = { max_strlen = …; }`");
                    whole
                }
                Some(value) => types::string_bytes((value as u64).saturating_sub(1)),
                None => {
                    self.integer(length, "the length of `str`");
                    whole
                }
            },
        };
        self.in_memory("str", call.span);
        Ty::Value(Type::Str { bytes })
    }

    fn param_string(&mut self, text: &str, span: Span) -> Ty {
        if text.contains('\0') {
            self.error(span, "the parameter has a NUL byte", "a NUL ends every string");
            return Ty::Unknown;
        }
        if text.len() as u64 >= u64::from(self.settings.max_strlen) {
            let limit = self.settings.max_strlen - 1;
            let message = format!("the parameter is too long: {} bytes, the limit is {limit}", text.len());
            self.error(span, &message, "raise it with `config = { max_strlen = …; }`");
            return Ty::Unknown;
        }
        Ty::Value(Type::Str { bytes: types::string_bytes(text.len() as u64) })
    }

    fn delete(&mut self, args: &[Expr]) -> Ty {
        let Some(map) = self.map_arg("delete", &args[0]) else {
            args[1..].iter().for_each(|arg| self.look_over(arg));
            return Ty::None;
        };
        let index = match args.get(1) {
            Some(_) if !map.keys.is_empty() => {
                let message = "`delete` takes the map without a key where the key is its second argument";
                self.error(args[0].span, message, "write `delete(@name, key)`");
                return Ty::None;
            }
            Some(key) => {
                let index = self.map_index(map);
                self.use_with_key(index, key);
                index
            }
            None => {
                let keyed = self.map_index(map).filter(|_| map.keys.is_empty());
                if keyed.is_some_and(|index| matches!(self.maps[index].key, Key::Keyed(_))) {
                    let message = format!("`{}` has keys, and `delete` removes one", map.name.text);
                    let hint = format!("write `delete({0}, key)`; `clear({0})` removes all", map.name.text);
                    self.error(args[0].span, &message, &hint);
                    return Ty::None;
                }
                self.keyed_use(map)
            }
        };
        let Some(index) = index else { return Ty::None };
        self.known_value(index, map.name.span);
        // Whether there was an entry; a map without keys is a variable.
        match self.maps[index].key {
            Key::Scalar => Ty::None,
            _ => Ty::Value(Type::I64),
        }
    }

    fn has_key(&mut self, args: &[Expr]) -> Ty {
        let Some(map) = self.map_arg("has_key", &args[0]) else {
            self.look_over(&args[1]);
            return Ty::Value(Type::I64);
        };
        if !map.keys.is_empty() {
            let message = "`has_key` takes the map without a key as its first argument";
            self.error(args[0].span, message, "write `has_key(@name, key)`");
            return Ty::Value(Type::I64);
        }
        let index = self.map_index(map);
        if let Some(index) = index {
            self.known_value(index, map.name.span);
            if self.maps[index].key == Key::Scalar {
                let message = format!("`{}` has no keys", map.name.text);
                self.error(args[0].span, &message, "`has_key` is for maps with keys");
                return Ty::Value(Type::I64);
            }
        }
        self.use_with_key(index, &args[1]);
        Ty::Value(Type::I64)
    }

    fn len(&mut self, args: &[Expr]) -> Ty {
        let map = match &args[0].kind {
            ExprKind::Map(map) if map.keys.is_empty() => map.clone(),
            _ => {
                let ty = self.expr(&args[0]);
                let is_written = stack_of(&args[0]).is_some();
                let (message, hint) = match ty {
                    Ty::Unknown => return Ty::Value(Type::I64),
                    Ty::Value(Type::Ustack(_)) if is_written => return Ty::Value(Type::I64),
                    Ty::Value(Type::Ustack(_)) => (
                        "not supported by weir yet: `len` of a stack that is kept",
                        "write `len(ustack)` where it is taken, and keep that",
                    ),
                    _ => ("`len` takes a map without a key, or `ustack`", "write `len(@name)`"),
                };
                self.error(args[0].span, message, hint);
                return Ty::Value(Type::I64);
            }
        };
        if let Some(index) = self.with_keys(&map, "`len` is for maps with keys") {
            self.known_value(index, map.name.span);
        }
        Ty::Value(Type::I64)
    }

    fn whole_map(&mut self, name: &str, arg: &Expr) -> Ty {
        let Some(map) = self.map_arg(name, arg) else { return Ty::None };
        if !map.keys.is_empty() {
            let message = format!("`{name}` takes a whole map");
            self.error(arg.span, &message, &format!("write `{name}({})`", map.name.text));
            return Ty::None;
        }
        if let Some(index) = self.map_index(map) {
            self.known_value(index, map.name.span);
        }
        Ty::None
    }

    fn exit(&mut self, args: &[Expr]) -> Ty {
        if let Some(code) = args.first() {
            self.integer(code, "`exit`");
        }
        Ty::None
    }

    /// `nsecs()`, `pid()`: the same as without the brackets.
    fn builtin_call(&mut self, row: &builtin::Variable, function: &Name, args: &[Expr]) -> Ty {
        match (row.name, args) {
            (_, []) => return self.builtin(row, function.span),
            ("nsecs", [Expr { kind: ExprKind::Name(clock), span, .. }]) => match clock.as_str() {
                "monotonic" | "boot" | "tai" | "sw_tai" => return self.builtin(row, function.span),
                _ => self.error(
                    *span,
                    &format!("unknown clock `{clock}`"),
                    "clocks are monotonic, boot, tai and sw_tai",
                ),
            },
            ("comm", [pid]) => return self.word("comm", pid, Word::Process),
            (_, [first, ..]) => {
                let message = format!("`{}` takes no argument", row.name);
                self.error(first.span, &message, &format!("write `{}`", row.name));
            }
        }
        Ty::Unknown
    }

    fn unknown_function(&mut self, function: &Name) {
        let row = unsupported::find(Kind::Function, &function.text);
        if let Some(row) = row.or_else(|| unsupported::find(Kind::Builtin, &function.text)) {
            self.error(function.span, &row.message(), row.hint);
            return;
        }
        let functions = builtin::FUNCTIONS.iter().map(|row| row.name);
        let names = functions.chain(builtin::AGGREGATIONS.iter().map(|row| row.name));
        let hint = match nearest(&function.text, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "docs/language.md lists the functions".to_string(),
        };
        self.error(function.span, &format!("unknown function `{}`", function.text), &hint);
    }

    /// The argument as a map, or an error.
    fn map_arg<'e>(&mut self, function: &str, arg: &'e Expr) -> Option<&'e MapRef> {
        match &arg.kind {
            ExprKind::Map(map) => Some(map),
            ExprKind::Invalid => None,
            _ => {
                let message = format!("`{function}` takes a map");
                self.error(arg.span, &message, &format!("such as `{function}(@name)`"));
                None
            }
        }
    }

    pub(super) fn arity(
        &mut self,
        function: &Name,
        args: &[Expr],
        (least, most): (usize, usize),
        signature: &str,
    ) -> bool {
        if (least..=most).contains(&args.len()) || args.iter().any(|arg| arg.kind == ExprKind::Invalid) {
            return (least..=most).contains(&args.len());
        }
        let wanted = match (least, most) {
            (least, most) if least == most => arguments(least),
            (least, _) if args.len() < least => format!("at least {}", arguments(least)),
            (_, most) => format!("at most {}", arguments(most)),
        };
        let message = format!("`{}` takes {wanted}, but {} given", function.text, is(args.len()));
        self.error(function.span, &message, &format!("write `{signature}`"));
        false
    }

    /// Checks an argument whose place is faulty: for the faults within it. Maps may stand for themselves there.
    pub(super) fn look_over(&mut self, arg: &Expr) {
        if !matches!(arg.kind, ExprKind::Map(_)) {
            self.expr(arg);
        }
    }
}

/// The arguments of a stack, if the expression is one as it is written.
pub(crate) fn stack_of(expr: &Expr) -> Option<&[Expr]> {
    match &expr.kind {
        ExprKind::Name(name) if builtin::is_stack(name) => Some(&[]),
        ExprKind::Call { function, args } if builtin::is_stack(&function.text) => Some(args),
        _ => None,
    }
}

/// What the arguments of `ustack` ask for; or which is wrong, why, and what to write.
pub(crate) fn stack_form(args: &[Expr], known: &Known) -> Result<StackForm, (usize, String, &'static str)> {
    const WRITE: &str = "write `ustack`, `ustack(perf)`, `ustack(10)` or `ustack(raw, 10)`";
    let mut form = StackForm { mode: known.stack_mode, frames: STACK_FRAMES_MAX };
    let mode = args.first().and_then(|arg| match &arg.kind {
        ExprKind::Name(name) => Some(name),
        _ => None,
    });
    let mut frames = (0, args.first());
    if let Some(name) = mode {
        let known = StackMode::NAMES.iter().find(|(_, known)| known == name);
        let Some((mode, _)) = known else {
            return Err((0, format!("there is no mode of stacks `{name}`"), WRITE));
        };
        form.mode = *mode;
        frames = (1, args.get(1));
    } else if args.len() > 1 {
        return Err((0, "the first of two arguments of `ustack` is a mode".to_string(), WRITE));
    }
    let (at, Some(frames)) = frames else { return Ok(form) };
    let wanted = constant(frames, known).and_then(|frames| u32::try_from(frames).ok());
    match wanted.filter(|frames| (1..=STACK_FRAMES_MAX).contains(frames)) {
        Some(frames) => Ok(StackForm { frames, ..form }),
        None => {
            let message = format!("the frames of `ustack` must be a constant from 1 to {STACK_FRAMES_MAX}");
            Err((at, message, WRITE))
        }
    }
}

fn arguments(count: usize) -> String {
    match count {
        0 => "no argument".to_string(),
        1 => "1 argument".to_string(),
        _ => format!("{count} arguments"),
    }
}

fn is(count: usize) -> String {
    match count {
        0 => "none is".to_string(),
        1 => "1 is".to_string(),
        _ => format!("{count} are"),
    }
}
