use proptest::prelude::*;

use super::*;

const MOST: usize = 1 << 20;

fn numbers(to: &mut Vec<u8>, numbers: &[i16]) {
    to.extend_from_slice(&(numbers.len() as i16).to_be_bytes());
    numbers.iter().for_each(|number| to.extend_from_slice(&number.to_be_bytes()));
}

/// A message as a client writes it.
fn written(frontend: &Frontend) -> Vec<u8> {
    let mut bytes = Vec::new();
    match frontend {
        Frontend::Query(query) => message(&mut bytes, b'Q', |to| text(to, query)),
        Frontend::Parse { name, query, types } => message(&mut bytes, b'P', |to| {
            text(to, name);
            text(to, query);
            to.extend_from_slice(&(types.len() as i16).to_be_bytes());
            types.iter().for_each(|oid| to.extend_from_slice(&oid.to_be_bytes()));
        }),
        Frontend::Bind(bind) => message(&mut bytes, b'B', |to| {
            text(to, &bind.portal);
            text(to, &bind.statement);
            numbers(to, &bind.formats);
            to.extend_from_slice(&(bind.values.len() as i16).to_be_bytes());
            for value in &bind.values {
                let length = value.as_ref().map_or(-1, |value| value.len() as i32);
                to.extend_from_slice(&length.to_be_bytes());
                to.extend_from_slice(value.as_deref().unwrap_or_default());
            }
            numbers(to, &bind.results);
        }),
        Frontend::Execute { portal, most } => message(&mut bytes, b'E', |to| {
            text(to, portal);
            to.extend_from_slice(&most.to_be_bytes());
        }),
        Frontend::Describe { kind, name } => message(&mut bytes, b'D', |to| {
            to.push(*kind);
            text(to, name);
        }),
        Frontend::CopyData(data) => message(&mut bytes, b'd', |to| to.extend_from_slice(data)),
        _ => message(&mut bytes, b'S', |_| {}),
    }
    bytes
}

fn words() -> impl Strategy<Value = String> {
    "[^\\x00]{0,12}"
}

fn frontends() -> impl Strategy<Value = Frontend> {
    let small = || prop::collection::vec(-2i16..3, 0..4);
    let values =
        prop::collection::vec(prop::option::of(prop::collection::vec(any::<u8>(), 0..9)), 0..4);
    let bind = (words(), words(), small(), values, small());
    prop_oneof![
        words().prop_map(Frontend::Query),
        (words(), words(), prop::collection::vec(any::<u32>(), 0..4))
            .prop_map(|(name, query, types)| Frontend::Parse { name, query, types }),
        bind.prop_map(|(portal, statement, formats, values, results)| {
            Frontend::Bind(Bind { portal, statement, formats, values, results })
        }),
        (words(), 0..i32::MAX as u32).prop_map(|(portal, most)| Frontend::Execute { portal, most }),
        (any::<u8>(), words()).prop_map(|(kind, name)| Frontend::Describe { kind, name }),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(Frontend::CopyData),
        Just(Frontend::Sync),
    ]
}

proptest! {
    #[test]
    fn what_a_client_writes_is_read_as_it_was_meant(frontend in frontends()) {
        let bytes = written(&frontend);
        let (kind, length) = frame(&bytes, MOST).unwrap().unwrap();
        prop_assert_eq!(length, bytes.len());
        prop_assert_eq!(decode(kind, &bytes[5..length]).unwrap(), frontend);
        // Of less than all of it nothing is read.
        for end in 0..bytes.len() {
            prop_assert_eq!(frame(&bytes[..end], MOST).unwrap(), None);
        }
    }

    #[test]
    fn a_body_that_ends_early_is_refused(frontend in frontends(), cut in 1usize..8) {
        let bytes = written(&frontend);
        let body = &bytes[5..];
        let is_free = matches!(frontend, Frontend::CopyData(_) | Frontend::Sync);
        if !is_free && cut <= body.len() {
            prop_assert!(decode(bytes[0], &body[..body.len() - cut]).is_err());
        }
    }

    #[test]
    fn hostile_bytes_are_an_answer_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = opening(&bytes);
        let _ = frame(&bytes, MOST);
        for kind in b"QPBDCESHXdcfpF" {
            let _ = decode(*kind, &bytes);
        }
    }
}
