use super::*;

#[test]
fn names_are_sha1() {
    assert_eq!(Sha::of(b"return 1").as_bytes(), b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    assert_eq!(Sha::parse(&Sha::of(b"x").0.to_ascii_uppercase()), Some(Sha::of(b"x")));
    assert_eq!(Sha::parse(b"short"), None);
}

#[test]
fn many_scripts_do_not_fill_the_memory() {
    let mut engine = Engine::new(&Settings::default()).unwrap();
    for number in 0..3_000 {
        engine.load(format!("return '{number}' .. '{}'", "x".repeat(4_000)).as_bytes()).unwrap();
    }
    assert!(engine.scripts.len() <= SCRIPTS_MAX);
    assert!(engine.used_bytes() < 8 << 20);
}
