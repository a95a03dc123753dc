//! Is what a history holds inert, and is a page bounded?

use super::*;
use crate::explain::Explained;
use crate::explain::cliff::{Cliff, Decisive, Gradual, Rest, Settled};
use crate::report::block::Failure;
use crate::report::sample;
use crate::shrink::Signature;

#[test]
fn what_closes_a_script_does_not_close_it() {
    let json = serde_json::to_string("</script><!--\u{2028}&amp;").unwrap();
    let inert = inert(&json);
    assert!(!inert.contains(['<', '>', '&', '\u{2028}']), "{inert}");
    let back: String = serde_json::from_str(&inert).unwrap();
    assert_eq!(back, "</script><!--\u{2028}&amp;");
    assert_eq!(escaped("<a href='x'>&\""), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;");
}

#[test]
fn the_page_has_each_place_once_and_in_this_order() {
    let at = [TITLE, SUMMARY, DATA].map(|place| {
        assert_eq!(PAGE.matches(place).count(), 1, "{place}");
        PAGE.find(place).unwrap()
    });
    assert!(at.is_sorted(), "{at:?}");
}

#[test]
fn the_page_asks_for_nothing_beside_itself() {
    assert!(PAGE.contains("default-src 'none'"), "a policy that lets nothing through");
    // A place in the page itself.
    let page = PAGE.replace("url(#", "");
    for asks in ["<link", "<img", "<iframe", " src=", "@import", "url(", "fetch(", "XMLHttp"] {
        assert!(!page.contains(asks), "{asks}");
    }
}

/// A way on which the share rises goes into the page as one, and the page has words for it.
#[test]
fn what_rises_at_no_single_event_is_told_in_both_languages() {
    let run = sample::replication_lag();
    let event = run.history.events[20].id;
    let (at_us, name) = (4_100_300, "app-1/3 sells unit 1".to_owned());
    let rise = Decisive { event, at_us, name, before: 3, after: 40, rest: Rest::Calm };
    let settled = Settled::Gradually(Gradual { from: None, to: 8, rise });
    let explained = Explained {
        signature: Signature::of(&run).unwrap(),
        run: run.clone(),
        draws: 50,
        causes: Vec::new(),
        cliff: Cliff { points: Vec::new(), settled },
        nearest: None,
        pair: None,
        measures: Vec::new(),
    };
    let (repetition, confirmation) = (None, None);
    let failure = Failure { run: &run, position: None, repetition, confirmation, reproduce: "x" };
    let page = page(&Source { explained: Some(&explained), ..Source::of_run(&failure) });
    let told = "\"gradual\":{\"from\":null,\"to\":8,\"before\":3,\"after\":40,\"calm\":true}";
    assert!(page.contains("\"decisive\":null") && page.contains(told));
    for words in ["It rises between {0} and {1}, at no single event", "却不在任何单一事件上"]
    {
        assert_eq!(page.matches(words).count(), 1, "{words}");
    }
}
