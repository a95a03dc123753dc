//! Every kind: planted and mended.

use super::*;

#[test]
fn a_record_lost_to_replication_lag_is_told_with_its_faults() {
    let judgement = judge(&lost_to_replication_lag().end(), &setting(2));
    assert_eq!(judgement.verdict, Verdict::Violation);
    assert_eq!(kinds(&judgement), ["double-grant", "effect-interleaved", "oversell", "grant-lost"]);
    for finding in &judgement.findings {
        assert_eq!(finding.blame.parted, Parted::RecordLost, "{}", finding.kind);
        assert_eq!(blamed(finding), [(0, "authority"), (1, "authority")], "{}", finding.kind);
    }
    let double = one(&judgement, Kind::DoubleGrant);
    assert_eq!(owners(double), ["app-1/1", "app-2/1"]);
    assert_eq!((double.from_us, double.to_us), (250_000, 340_000));
    let sentences: Vec<String> = judgement.findings.iter().map(Finding::sentence).collect();
    insta::assert_snapshot!(sentences.join("\n"), @r"
    ");
    insta::assert_snapshot!(judgement.signature(), @"");
}
