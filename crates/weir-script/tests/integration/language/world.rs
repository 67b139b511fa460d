//! A world of two binaries, in place of ELF files. The second has static probes; `libold` is one whose functions moved to the first.

use weir_ir::{
    ArgumentPlace, FoundArgument, FoundField, FoundFunction, FoundPlace, FoundPrototype, FoundStatic,
    PlaceSpec, StaticKind, World, WorldError,
};

pub(crate) struct TableWorld;

/// Names a script may use, the path, the functions.
const BINARIES: &[(&[&str], &str, &[&str])] = &[
    (&["libc", "/lib/libc.so.6"], "/lib/libc.so.6", &["malloc", "calloc", "free", "main"]),
    (&["./app", "/opt/app", "/opt/my app"], "/opt/app", &["main", "alloc_a", "alloc_b", "weird:name"]),
];

impl World for TableWorld {
    fn functions(&self, binary: &str, pattern: &str) -> Result<Vec<FoundFunction>, WorldError> {
        if binary == "libold" {
            let mut found = self.functions("libc", pattern)?;
            found.iter_mut().for_each(|function| function.is_moved = true);
            return Ok(found);
        }
        let Some((_, path, functions)) = BINARIES.iter().find(|(names, _, _)| names.contains(&binary)) else {
            return Err(WorldError {
                message: format!("no such binary: {binary}"),
                hint: Some("check the path".into()),
            });
        };
        let fits = |name: &str| match pattern.split_once('*') {
            Some((start, end)) => name.starts_with(start) && name.ends_with(end),
            None => name == pattern,
        };
        let found: Vec<FoundFunction> =
            functions.iter().filter(|name| fits(name)).map(|name| FoundFunction::plain(path, name)).collect();
        if found.is_empty() {
            return Err(WorldError { message: format!("no function {pattern} in {path}"), hint: None });
        }
        Ok(found)
    }

    /// Those of one overloaded function.
    fn demangled_functions(&self, binary: &str, pattern: &str) -> Result<Vec<FoundFunction>, WorldError> {
        if pattern != "ns::f" {
            return Err(WorldError { message: format!("no function {pattern} in {binary}"), hint: None });
        }
        let found = [("_ZN2ns1fEi", "ns::f(int)"), ("_ZN2ns1fEd", "ns::f(double)")];
        let function = |(name, shown): (&str, &str)| FoundFunction {
            shown: shown.to_owned(),
            ..FoundFunction::plain(binary, name)
        };
        Ok(found.map(function).into())
    }

    fn places(&self, binary: &str, place: &PlaceSpec) -> Result<Vec<FoundPlace>, WorldError> {
        let path = self.functions(binary, "main")?[0].binary.clone();
        let at = |name: String, address| FoundPlace {
            binary: path.clone(),
            name,
            function: "main".into(),
            address,
        };
        match place {
            PlaceSpec::Offset { function, offset } if *offset < 100 => {
                Ok(vec![at(format!("{function}+{offset}"), 0x1000 + offset)])
            }
            PlaceSpec::Address(address) => Ok(vec![at(format!("{address:#x}"), *address)]),
            PlaceSpec::Line { file, line } => {
                Ok(vec![at(format!("{file}:{line}"), 0x2000), at(format!("{file}:{line}"), 0x2010)])
            }
            PlaceSpec::Offset { .. } => {
                Err(WorldError { message: "no function is so long".into(), hint: None })
            }
        }
    }

    fn static_probes(
        &self,
        kind: Option<StaticKind>,
        binary: &str,
        provider: Option<&str>,
        pattern: &str,
    ) -> Result<Vec<FoundStatic>, WorldError> {
        let fits = |place: &FoundStatic| {
            let (start, end) = pattern.split_once('*').unwrap_or((pattern, ""));
            let is_named = if pattern.contains('*') {
                place.name.starts_with(start) && place.name.ends_with(end)
            } else {
                place.name == pattern
            };
            let is_kind = kind.is_none_or(|kind| kind == place.kind);
            is_kind && provider.is_none_or(|provider| place.provider == provider) && is_named
        };
        let all = if binary == "./app" { static_probes() } else { Vec::new() };
        let found: Vec<FoundStatic> = all.into_iter().filter(fits).collect();
        if found.is_empty() {
            return Err(WorldError { message: format!("no static probe {pattern} in {binary}"), hint: None });
        }
        Ok(found)
    }

    /// `alloc_a(int size, const char *path, struct s, double rate)` and `alloc_b(const char *path, int size, unsigned flags)`.
    fn prototypes(&self, _: &str, functions: &[&str]) -> Vec<Option<FoundPrototype>> {
        let field = |name: &str, bytes, signed, place| FoundField {
            name: name.into(),
            ty: weir_event::schema::Type::Int { bytes, signed },
            may_be_text: false,
            argument: FoundArgument { text: name.into(), bytes, signed, place, ..FoundArgument::register(0) },
            count: None,
            form: weir_event::schema::Form::default(),
            is_hidden: false,
        };
        let register = |number, bits| Ok(ArgumentPlace::Register { number, shift: 0, bits });
        let of = |name: &str| {
            let parameters = match name {
                "alloc_a" => {
                    let mut rate = field("rate", 8, true, Ok(ArgumentPlace::Vector(0)));
                    rate.argument.is_float = true;
                    let unknown = Err("it is a struct, passed by value".into());
                    vec![
                        field("size", 4, true, register(7, 32)),
                        field("path", 8, false, register(6, 64)),
                        field("s", 8, false, unknown),
                        rate,
                    ]
                }
                "alloc_b" => vec![
                    field("path", 8, false, register(7, 64)),
                    field("size", 4, true, register(6, 32)),
                    field("flags", 4, false, register(2, 32)),
                ],
                _ => return None,
            };
            Some(FoundPrototype { parameters, result: None })
        };
        functions.iter().map(|name| of(name)).collect()
    }
}

/// `start` has two places with its arguments in different registers; `end` has one it cannot give; `tick` has
/// none; `wide` has them in memory.
fn static_probes() -> Vec<FoundStatic> {
    let register = |number, shift, bits| ArgumentPlace::Register { number, shift, bits };
    let memory =
        |base, index, displacement, relative| ArgumentPlace::Memory { base, index, displacement, relative };
    let argument = |bytes: u8, signed, place| FoundArgument {
        text: "text".into(),
        bytes,
        signed,
        place: Ok(place),
        ..FoundArgument::register(0)
    };
    let float = |bytes, place| FoundArgument { is_float: true, ..argument(bytes, true, place) };
    let unreadable = FoundArgument {
        text: "8f@%xmm0".into(),
        bytes: 8,
        signed: false,
        is_float: true,
        place: Err("floating-point: no type".into()),
        steps: Vec::new(),
    };
    // The first argument of `start` has a name.
    let named = |argument: &FoundArgument| FoundField {
        name: "id".into(),
        ty: weir_event::schema::Type::Int { bytes: argument.bytes, signed: argument.signed },
        may_be_text: false,
        argument: argument.clone(),
        count: None,
        form: weir_event::schema::Form::default(),
        is_hidden: false,
    };
    let place = |name: &str, address, semaphore, arguments: Vec<FoundArgument>| FoundStatic {
        kind: StaticKind::Usdt,
        binary: "/opt/app".into(),
        provider: "prov".into(),
        name: name.into(),
        function: "main".into(),
        address,
        semaphore,
        fields: arguments.first().filter(|_| name == "start").map(named).into_iter().collect(),
        arguments,
    };
    vec![
        place(
            "start",
            0x1000,
            Some(0x4000),
            vec![
                argument(4, true, register(7, 0, 32)),
                argument(1, false, register(0, 8, 8)),
                argument(8, false, register(3, 0, 64)),
            ],
        ),
        place(
            "start",
            0x1100,
            Some(0x4000),
            vec![argument(4, true, register(6, 0, 32)), argument(1, false, register(0, 8, 8))],
        ),
        place("end", 0x1200, None, vec![unreadable]),
        place("tick", 0x1300, None, Vec::new()),
        place(
            "wide",
            0x1400,
            None,
            vec![
                argument(2, true, memory(Some(4), Some((0, 8)), -8, false)),
                argument(8, false, memory(None, None, 0x3000, true)),
                argument(1, true, ArgumentPlace::Constant(0x1ff)),
            ],
        ),
        place(
            "floating",
            0x1500,
            None,
            vec![
                float(8, ArgumentPlace::Vector(3)),
                float(4, ArgumentPlace::Vector(1)),
                float(8, register(0, 0, 64)),
                float(4, memory(Some(4), None, 8, false)),
                argument(8, false, register(3, 0, 64)),
            ],
        ),
    ]
}
