//! Is what a history holds inert, and is a page bounded?

use super::*;
use crate::explain::cliff::{Cliff, Place, Rest, Rise, Settled};
use crate::explain::{Draws, Explained};
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

/// The page of a failure that is settled so.
fn page_of(settled: Settled) -> String {
    let run = sample::replication_lag();
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
    page(&Source { explained: Some(&explained), ..Source::of_run(&failure) })
}

fn rise([before, after]: [u32; 2], draws: Draws) -> Rise {
    let (at_us, name) = (4_100_300, "app-1/3 sells unit 1".to_owned());
    let event = sample::replication_lag().history.events[20].id;
    let to = Place { step: Some(8), event, at_us, name };
    Rise { from_step: None, to, before, after, rest: Rest::Calm, draws }
}

/// A way on which the share rises goes into the page as one, and the page has words for it.
#[test]
fn what_rises_at_no_single_event_is_told_in_both_languages() {
    let page = page_of(Settled::Gradually(rise([3, 40], Draws::Anew)));
    let told = "\"gradual\":{\"from\":null,\"to\":8,\"before\":3,\"after\":40,\"calm\":true,\
                \"anew\":true,";
    assert!(page.contains("\"decisive\":null") && page.contains(told));
    assert!(page.contains("\"not_decided\":null"));
    for words in ["It rises between {0} and {1}, at no single event", "却不在任何单一事件上"]
    {
        assert_eq!(page.matches(words).count(), 1, "{words}");
    }
}

/// So does what is not decided, with which draws were counted and what would not do.
#[test]
fn what_is_not_decided_is_told_in_both_languages() {
    for (draws, anew) in [(Draws::Same, false), (Draws::Anew, true)] {
        let rise = rise([20, 30], draws);
        let least = rise.least_draws(50).unwrap();
        let page = page_of(Settled::NotDecided(rise));
        let told = format!(
            "\"not_decided\":{{\"from\":null,\"to\":8,\"before\":20,\"after\":30,\"calm\":true,\
             \"anew\":{anew},\"least\":{least}}}"
        );
        assert!(page.contains("\"gradual\":null") && page.contains(&told), "{told}");
        for words in [
            "Not decided: the share rises most between {0} and {1}:",
            "Not decided: the share seemed to rise most between {0} and {1}; drawn anew",
            "fewer than about {0} draws",
            "尚无定论：比例看似在 {0} 与 {1} 之间上升最多；另行抽取",
            "少于约 {0} 次抽取",
        ] {
            assert_eq!(page.matches(words).count(), 1, "{words}");
        }
    }
}
