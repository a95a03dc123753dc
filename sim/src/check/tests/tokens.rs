//! Tokens and the fence.

use super::*;

#[test]
fn tokens_must_grow_from_grant_to_grant() {
    let second = |token: u64| {
        let sample = Sample::new().at(1).grant_token("app-1/1", 7).let_go("app-1/1");
        judge(&sample.at(2).grant_token("app-2/1", token).end(), &setting(0))
    };
    for token in [6, 7] {
        let judgement = second(token);
        assert_eq!(kinds(&judgement), ["token-regression"]);
        assert_eq!(judgement.verdict, Verdict::Safe, "an advisory");
    }
    assert_eq!(kinds(&second(8)), [""; 0]);
    // One fall is one finding, however long the tokens take to climb again.
    let mut sample = Sample::new();
    for (n, token) in [1, 2, 3, 1, 2, 3, 4].into_iter().enumerate() {
        let who = format!("app-1/{}", n + 1);
        sample = sample.at(n as u64).grant_token(&who, token).let_go(&who);
    }
    let fall = judge(&sample.end(), &setting(0));
    assert_eq!(owners(one(&fall, Kind::TokenRegression)), ["app-1/3", "app-1/4"]);
}

#[test]
fn the_fence_must_not_refuse_the_newest_holder() {
    let refused = |second: u64, accepted: bool| {
        let sample = Sample::new()
            .at(1)
            .grant_token("app-1/1", 7)
            .fenced_read("app-1/1", 7, true)
            .let_go("app-1/1")
            .at(2)
            .grant_token("app-2/1", second)
            .fenced_read("app-2/1", second, accepted);
        judge(&sample.end(), &Setting { fence: Fence::Full, ..setting(0) })
    };
    let judgement = refused(7, false);
    assert!(judgement.found(Kind::FalseReject) && judgement.found(Kind::TokenRegression));
    assert_eq!(one(&judgement, Kind::FalseReject).blame.owners, ["app-1/1", "app-2/1"]);
    // Refused, but not by the fence: sold out.
    assert_eq!(kinds(&refused(8, false)), [""; 0]);
    assert_eq!(kinds(&refused(8, true)), [""; 0]);
}

#[test]
fn an_older_holder_is_rightly_refused() {
    let history = Sample::new()
        .at(1)
        .grant_token("app-1/1", 7)
        .at(2)
        .promoted("redis-2", &[])
        .grant_token("app-2/1", 8)
        .fenced_read("app-2/1", 8, true)
        .fenced_read("app-1/1", 7, false)
        .end();
    let judgement = judge(&history, &Setting { fence: Fence::Full, ..setting(0) });
    assert!(!judgement.found(Kind::FalseReject));
    assert_eq!(judgement.verdict, Verdict::SafeByFence);
}
