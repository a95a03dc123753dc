//! Is what a history holds inert, and is a page bounded?

use super::*;

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
