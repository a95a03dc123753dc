# Reads callgrind_annotate's list of functions by their own instructions and says how
# many of them are the engine's: our engine, tokio's runtime, its timers and tasks.
/^ *[0-9][0-9,]* \(/ && !/PROGRAM TOTALS/ {
  count = $1; gsub(",", "", count); all += count
  if ($0 ~ /lockstorm_sim::engine|tokio::(runtime|time|task|util|sync)|Timespec|binary_heap/) engine += count
}
END { printf "the engine's share of a storm: %.1f %% of %.0f instructions\n", 100 * engine / all, all }
