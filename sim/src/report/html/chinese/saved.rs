//! What kept a run from harm.

use super::Form;

/// `report/why/saved.rs`.
pub(super) const SAVED: &[Form] = &[
    (
        "nothing: {} did {} at the stock after that, the first at {}, and no harm came of it.",
        "没有什么：此后 {0} 又对库存操作了{1}，第一次在 {2}，只是碰巧没有造成损害。",
    ),
    (
        "the holder: {} was told of it at {}, and did nothing more at the stock.",
        "持有者：{0} 在 {1} 得知此事，此后没有再动库存。",
    ),
    (
        "the holder: its own deadline check told {} at {}, and it did nothing more at the stock.",
        "持有者：{0} 在 {1} 查看期限时自己发现，此后没有再动库存。",
    ),
    (
        "nothing: {} died at {}, before it did anything more.",
        "没有什么：{0} 在 {1} 死亡，来不及再做什么。",
    ),
    (
        "nothing: {} happened to have nothing more to do at the stock.",
        "没有什么：{0} 恰好对库存已无事可做。",
    ),
    (
        "the fence: it refused {} of {} and {}, the first at {}.",
        "栅栏：它拒绝了 {1} 和 {2} 的{0}，第一次在 {3}。",
    ),
    (
        "the fence: it refused {} of {}, the first at {}.",
        "栅栏：它拒绝了 {1} 的{0}，第一次在 {2}。",
    ),
    ("{} thing", "{0} 次"),
    ("{} things", "{0} 次"),
    ("{} operation", "{0} 次操作"),
    ("{} operations", "{0} 次操作"),
];
