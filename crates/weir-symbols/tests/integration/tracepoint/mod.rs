//! Notes of tracepoints, made byte by byte as docs/tracepoint-format.md says: what they mean, and what is left out.

mod image;

use std::path::Path;

use image::{CODE, Image, TABLES, everything, fields, probe, record, row};
use weir_event::schema::{Field, Form, Level, Type};
use weir_symbols::{Binary, StaticProbe};

fn read(image: &Image) -> (Vec<StaticProbe>, u64) {
    let binary = Binary::parse(Path::new("image"), image.bytes()).unwrap();
    (binary.static_probes().to_vec(), binary.static_probes_left_out())
}

fn int(bytes: u8, signed: bool) -> Type {
    Type::Int { bytes, signed }
}

#[test]
fn every_kind_of_field_has_its_type_and_its_argument() {
    let (probes, left_out) = read(&everything());
    assert_eq!((probes.len(), left_out), (1, 0));
    let schema = probes[0].schema.as_ref().unwrap();
    assert_eq!((schema.provider.as_str(), schema.event.as_str()), ("shop", "sale"));
    assert_eq!(schema.level, Level::named("info"));
    let text = || Type::Sequence { element: Box::new(int(1, false)) };
    let labels = vec![("RED".to_owned(), 0, 0), ("rest".to_owned(), -9, 9)];
    let members = vec![("x".to_owned(), 4, int(4, true)), ("ratio".to_owned(), 8, Type::Float { bytes: 8 })];
    let expected = [
        ("id", int(4, true), 0, Form::Decimal),
        ("flags", int(8, false), 1, Form::Hexadecimal),
        ("total", Type::Float { bytes: 8 }, 2, Form::Decimal),
        ("share", Type::Float { bytes: 4 }, 3, Form::Decimal),
        ("article", Type::Text, 4, Form::Decimal),
        ("parts", Type::Array { element: Box::new(int(2, true)), count: 3 }, 5, Form::Decimal),
        ("remark", text(), 6, Form::Text),
        ("color", Type::Enum { bytes: 4, signed: true, labels }, 8, Form::Decimal),
        ("place", Type::Struct { fields: members }, 9, Form::Decimal),
    ];
    let expected = expected.map(|(name, ty, slot, form)| Field { name: name.to_owned(), ty, slot, form });
    assert_eq!(schema.fields, expected);
}

#[test]
fn arguments_of_floating_point_fields_are_floating_point() {
    let (probes, _) = read(&everything());
    let types: Vec<String> = probes[0].arguments.iter().map(|argument| argument.type_name()).collect();
    let expected = "int32 uint64 double float uint64 uint64 uint64 uint64 int32 uint64";
    assert_eq!(types.join(" "), expected);
}

/// A file with one place whose arguments and records are these, and these tables.
fn one(arguments: &str, records: &[Vec<u8>], tables: &[Vec<u8>]) -> Image {
    Image { tables: tables.concat(), ..Image::default() }.with(CODE, arguments, records)
}

/// The probe stays, without a schema, and the note is counted.
#[track_caller]
fn left_out(image: &Image) {
    let (probes, left_out) = read(image);
    assert_eq!((probes.len(), left_out), (1, 1));
    assert_eq!(probes[0].schema, None);
}

#[test]
fn records_that_do_not_fit_the_arguments_are_left_out() {
    let id = || record(1, 0, -4, 0, 0, "id");
    left_out(&one("", &[id()], &[]));
    left_out(&one("-4@%edi -4@%esi", &[id()], &[]));
    left_out(&one("4@%edi", &[id()], &[]));
    left_out(&one("-8@%rdi", &[id()], &[]));
    left_out(&one("4@%edi", &[record(1, 2, 8, 0, 0, "ratio")], &[]));
    left_out(&one("4@%edi", &[record(2, 0, 1, 0, 0, "text")], &[]));
    left_out(&one("8@%rdi", &[record(4, 0, 1, 0, 0, "sequence")], &[]));
    left_out(&one("8@%rdi 4@%esi", &[record(4, 0, 1, 0, 0, "sequence")], &[]));
    left_out(&one("-4@%edi", &[], &[]));
}

#[test]
fn records_that_mean_nothing_are_left_out() {
    let eight = |record: Vec<u8>| left_out(&one("8@%rdi", &[record], &[]));
    eight(record(0, 0, 8, 0, 0, "kind"));
    eight(record(7, 0, 8, 0, 0, "kind"));
    eight(record(1, 4, 8, 0, 0, "form"));
    eight(record(1, 3, 8, 0, 0, "no text"));
    eight(record(3, 3, 2, 8, 0, "wide text"));
    eight(record(1, 0, 3, 0, 0, "size"));
    eight(record(1, 0, -128, 0, 0, "size"));
    eight(record(1, 2, 2, 0, 0, "half"));
    eight(record(1, 0, 8, 0, 0, ""));
    eight(record(1, 0, 8, 0, 0, "bell\x07"));
    eight(record(1, 0, 8, 0, 0, &"n".repeat(257)));
    eight(record(1, 0, 8, 0, 0, "cut")[..17].to_vec());
    eight(record(1, 0, 8, 0, 0, "cut")[..10].to_vec());
}

#[test]
fn tables_that_lead_nowhere_are_left_out() {
    let labels = |table, rows: &[Vec<u8>]| one("4@%edi", &[record(5, 0, 4, 0, table, "color")], rows);
    let members = |rows: &[Vec<u8>]| one("8@%rdi", &[record(6, 0, 0, 0, TABLES, "place")], rows);
    let end = || row(0, 0, "");
    assert!(read(&labels(TABLES, &[row(1, 2, "a"), end()])).0[0].schema.is_some());
    assert!(read(&members(&[row(0, 4, "a"), end()])).0[0].schema.is_some());
    for table in [0, TABLES - 0x10_0000, TABLES + 2 * 64, u64::MAX] {
        left_out(&labels(table, &[row(1, 2, "a"), end()]));
    }
    left_out(&labels(TABLES, &[row(1, 2, "a")]));
    left_out(&labels(TABLES, &[row(1, 2, "\x1b"), end()]));
    left_out(&labels(TABLES, &vec![row(1, 2, "a"); 5000]));
    for (offset, number) in [(-1, 4), (1 << 32, 4), (0, 3), (0, 512 + 2), (0, 1 << 16)] {
        left_out(&members(&[row(offset, number, "a"), end()]));
    }
}

#[test]
fn notes_of_places_that_are_not_there_and_second_ones_are_counted() {
    let id = record(1, 0, -4, 0, 0, "id");
    let mut image = one("-4@%edi", std::slice::from_ref(&id), &[]);
    image.fields.extend(fields(1, CODE + 8, 6, &id));
    image.fields.extend(fields(1, CODE, 6, &id));
    image.fields.extend(fields(1, CODE, 6, &[])[..20].to_vec());
    let (probes, left_out) = read(&image);
    assert_eq!((probes.len(), left_out), (1, 2));
    assert!(probes[0].schema.is_some());
}

#[test]
fn notes_of_other_versions_and_levels_that_there_are_not_give_no_schema() {
    let id = record(1, 0, -4, 0, 0, "id");
    let with = |note: Vec<u8>| Image { probes: probe(CODE, "-4@%edi"), fields: note, tables: Vec::new() };
    assert_eq!(read(&with(fields(1, CODE, 14, &id))).0[0].schema.as_ref().unwrap().level, Level::new(14));
    left_out(&with(fields(1, CODE, 15, &id)));
    // Another version is none of this reader's business.
    let (probes, count) = read(&with(fields(2, CODE, 6, &id)));
    assert_eq!((probes[0].schema.clone(), count), (None, 0));
}

const IN_ROW: u64 = 0x100;

#[test]
fn words_of_a_row_are_arguments_in_memory() {
    let records =
        [record(1, 0, -4, 0, 0, "id"), record(4, 3, 1, 0, 0, "text"), record(1, 2, 4, 0, 0, "ratio")];
    let with = |arguments: &str, records: &[Vec<u8>]| Image {
        probes: probe(CODE, arguments),
        fields: fields(1, CODE, IN_ROW | 6, &records.concat()),
        tables: Vec::new(),
    };
    let (probes, count) = read(&with("8@%rcx", &records));
    let arguments: Vec<String> = probes[0].arguments.iter().map(ToString::to_string).collect();
    let expected =
        ["int32 -4@0(%rcx)", "uint64 8@8(%rcx)", "uint64 8@16(%rcx)", "float 4@24(%rcx)"].map(str::to_owned);
    assert_eq!((arguments, count), (expected.to_vec(), 0));
    let slots: Vec<u8> = probes[0].schema.iter().flat_map(|s| &s.fields).map(|field| field.slot).collect();
    assert_eq!(slots, [0, 1, 3]);
    // As many words as there may be, and one more.
    let many = |count: usize| vec![record(1, 0, 8, 0, 0, "n"); count];
    assert_eq!(read(&with("8@%rcx", &many(64))).0[0].arguments.len(), 64);
    left_out(&with("8@%rcx", &many(65)));
    // The one argument is all of a register.
    for arguments in ["", "8@%rcx 8@%rdx", "4@%ecx", "8@8(%rcx)", "8@$5", "8@%xmm0"] {
        left_out(&with(arguments, &records));
    }
}

#[test]
fn members_with_dots_are_those_of_structs_within() {
    let of = |rows: &[Vec<u8>]| {
        let image = one("8@%rdi", &[record(6, 0, 0, 0, TABLES, "box")], &[rows.concat(), row(0, 0, "")]);
        read(&image).0[0].schema.as_ref().map(|schema| schema.fields[0].ty.clone())
    };
    let member = |name: &str, offset, ty| (name.to_owned(), offset, ty);
    let long = || int(8, false);
    let rows = [
        row(0, 8, "id"),
        row(16, 8, "at.low.x"),
        row(24, 8, "at.low.y"),
        row(32, 8, "at.z"),
        row(40, 8, "a"),
    ];
    let low = Type::Struct { fields: vec![member("x", 0, long()), member("y", 8, long())] };
    let at = Type::Struct { fields: vec![member("low", 0, low), member("z", 16, long())] };
    let fields = vec![member("id", 0, long()), member("at", 16, at), member("a", 40, long())];
    assert_eq!(of(&rows), Some(Type::Struct { fields }));
    assert!(of(&[row(0, 8, &format!("{}x", "n.".repeat(8)))]).is_some());
    assert_eq!(of(&[row(0, 8, &format!("{}x", "n.".repeat(9)))]), None);
    // Apart from each other; a member may be there twice.
    assert_eq!(of(&[row(0, 8, "in.a"), row(8, 8, "x"), row(16, 8, "in.b")]), None);
    assert!(of(&[row(0, 8, "a"), row(8, 8, "a")]).is_some());
    for name in [".x", "x.", ".", "a..b"] {
        assert_eq!(of(&[row(0, 8, name)]), None, "{name}");
    }
}

#[test]
fn the_places_of_an_event_have_schemas_of_their_own() {
    let image = one("-4@%edi", &[record(1, 0, -4, 0, 0, "id")], &[])
        .with(CODE + 8, "8@%rdi", &[record(1, 0, 8, 0, 0, "id")])
        .with(CODE + 16, "", &[]);
    let (probes, count) = read(&image);
    let types: Vec<Vec<Type>> = probes
        .iter()
        .map(|probe| {
            probe.schema.iter().flat_map(|schema| &schema.fields).map(|field| field.ty.clone()).collect()
        })
        .collect();
    assert_eq!((types, count), (vec![vec![int(4, true)], vec![int(8, false)], vec![]], 0));
}

#[test]
fn many_notes_on_one_long_table_take_no_more_memory_than_the_file_is_large() {
    let rows: Vec<Vec<u8>> = (0..4000).map(|n| row(n, n, "label")).chain([row(0, 0, "")]).collect();
    let mut image = Image { tables: rows.concat(), ..Image::default() };
    for place in 0..64 {
        image = image.with(CODE + 8 * place, "4@%edi", &[record(5, 0, 4, 0, TABLES, "color")]);
    }
    let (probes, left_out) = read(&image);
    assert_eq!(probes.len(), 64);
    assert!((50..60).contains(&left_out), "{left_out} of 64");
}

/// Any byte of the notes and tables may be any other.
#[test]
fn no_byte_makes_it_panic() {
    let whole = everything();
    for value in [0, 1, 3, 0x7f, 0x80, 0xff] {
        for at in 0..whole.fields.len() {
            let mut image = whole.clone();
            image.fields[at] = value;
            let _ = read(&image);
        }
        for at in 0..whole.tables.len() {
            let mut image = whole.clone();
            image.tables[at] = value;
            let _ = read(&image);
        }
    }
    for end in 0..whole.fields.len() {
        let image = Image { fields: whole.fields[..end].to_vec(), ..whole.clone() };
        let _ = read(&image);
    }
}
