//! Finding rows: what a snapshot shows, joined and filtered.

use super::Run;
use crate::error::SqlError;
use crate::evaluate::{Environment, Evaluated};
use crate::heap::{Row, TupleId};
use crate::plan::{Reads, Select, Source};
use crate::sql::ast::Joining;
use crate::value::Value;

/// A row of all sources, and which version each came from.
#[derive(Clone, Debug)]
pub(crate) struct Joined {
    pub(crate) row: Vec<Value>,
    pub(crate) tuples: Vec<Option<TupleId>>,
}

/// So many rows may be joined before the filter: more is refused.
const MOST_ROWS: usize = 2_000_000;

impl Environment<'_> {
    /// All rows of the sources, joined, but not filtered.
    pub(super) fn join(&mut self, run: &Run, select: &Select) -> Evaluated<Vec<Joined>> {
        if let Some(rows) = &select.values {
            let mut all = Vec::new();
            for row in rows {
                let row = self.row(row, run.frame(&[]))?.to_vec();
                all.push(Joined { row, tuples: Vec::new() });
            }
            return Ok(all);
        }
        let mut all = vec![Joined { row: Vec::new(), tuples: Vec::new() }];
        for source in &select.sources {
            let rows = self.rows(run, source)?;
            let mut joined = Vec::new();
            for left in &all {
                let mut is_matched = false;
                for (tuple, row) in &rows {
                    let mut both = left.clone();
                    both.row.extend_from_slice(row);
                    both.tuples.push(*tuple);
                    let fits = match &source.on {
                        Some(on) => self.is_true(on, run.frame(&both.row))?,
                        None => true,
                    };
                    if fits {
                        is_matched = true;
                        self.make(size_of_val(&*both.row))?;
                        joined.push(both);
                    }
                    if joined.len() > MOST_ROWS {
                        return Err(SqlError::new("53200", "out of memory").into());
                    }
                }
                if !is_matched && source.joining == Joining::Left {
                    let mut alone = left.clone();
                    alone.row.extend(std::iter::repeat_n(Value::Null, source.columns));
                    alone.tuples.push(None);
                    joined.push(alone);
                }
            }
            all = joined;
        }
        Ok(all)
    }

    /// Whether a row of all sources is still one of the result: its joins and its filter.
    pub(super) fn fits(&mut self, run: &Run, select: &Select, row: &[Value]) -> Evaluated<bool> {
        for source in &select.sources {
            if let Some(on) = &source.on
                && source.joining == Joining::Inner
                && !self.is_true(on, run.frame(row))?
            {
                return Ok(false);
            }
        }
        match &select.filter {
            Some(filter) => self.is_true(filter, run.frame(row)),
            None => Ok(true),
        }
    }

    fn rows(&mut self, run: &Run, source: &Source) -> Evaluated<Vec<(Option<TupleId>, Row)>> {
        Ok(match &source.reads {
            Reads::Table(table) => self.tuples(run, table.id, source)?,
            Reads::Query(number) => {
                let rows = run.earlier.get(*number).map_or(&[][..], Vec::as_slice);
                rows.iter().map(|row| (None, row.clone())).collect()
            }
            Reads::View(view) => self.view(*view).into_iter().map(|row| (None, row)).collect(),
            Reads::Call(node) => {
                let value = self.value(node, run.frame(&[]))?;
                vec![(None, [value].into())]
            }
            Reads::Series(from, to, step) => {
                let mut limits = Vec::new();
                for node in [from, to, step] {
                    match self.value(node, run.frame(&[]))? {
                        Value::Int(number) => limits.push(number),
                        _ => return Ok(Vec::new()),
                    }
                }
                series(limits[0], limits[1], limits[2])?
            }
        })
    }

    fn tuples(
        &mut self,
        run: &Run,
        table: u32,
        source: &Source,
    ) -> Evaluated<Vec<(Option<TupleId>, Row)>> {
        let key = match &source.lookup {
            None => None,
            Some((index, nodes)) => Some((*index, self.values(nodes, run.frame(&[]))?)),
        };
        let none = std::collections::BTreeSet::new();
        let mine = self.core.transaction.as_ref().map_or(&none, |transaction| &transaction.mine);
        let Some(heap) = self.state.heaps.get(&table) else { return Ok(Vec::new()) };
        let mut rows = Vec::new();
        if let Some((index, key)) = key {
            if key.iter().any(Value::is_null) {
                return Ok(rows);
            }
            for id in heap.with_key(index, &key) {
                if let Some(tuple) = heap.get(id)
                    && run.snapshot.is_visible(tuple, mine)
                {
                    rows.push((Some(id), tuple.row.clone()));
                }
            }
            return Ok(rows);
        }
        for (id, tuple) in heap.iter() {
            if run.snapshot.is_visible(tuple, mine) {
                rows.push((Some(id), tuple.row.clone()));
            }
        }
        Ok(rows)
    }
}

fn series(from: i64, to: i64, step: i64) -> Evaluated<Vec<(Option<TupleId>, Row)>> {
    if step == 0 {
        return Err(SqlError::new("22023", "step size cannot equal zero").into());
    }
    let mut rows = Vec::new();
    let mut next = Some(from);
    while let Some(number) = next {
        if (step > 0 && number > to) || (step < 0 && number < to) {
            break;
        }
        if rows.len() >= MOST_ROWS {
            return Err(SqlError::new("53200", "out of memory").into());
        }
        rows.push((None, [Value::Int(number)].into()));
        next = number.checked_add(step);
    }
    Ok(rows)
}
