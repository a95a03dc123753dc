-- The world that scripts see. Runs once for each engine, with the standard
-- libraries still whole, and returns the entry through which every script runs.
--
-- Scripts get an empty environment whose lookups fall through to `world` and whose
-- assignments fail, so nothing of one script remains for the next. What is captured
-- in locals here cannot be changed by any script.

local host, locate, world, constants = ...

local error, getmetatable, ipairs, loadstring, next, pcall, rawequal, rawget, rawset, select =
  error, getmetatable, ipairs, loadstring, next, pcall, rawequal, rawget, rawset, select
local setfenv, setmetatable, tostring, type, xpcall = setfenv, setmetatable, tostring, type, xpcall
local find, format, insert, floor = string.find, string.format, table.insert, math.floor

local READ_ONLY = 'Attempt to modify a readonly table'

local function refuse()
  error(READ_ONLY, 2)
end

-- A table that reads like `content` and cannot be changed.
local sealed = setmetatable({}, { __mode = 'k' })
local function seal(content)
  local front = setmetatable({}, { __index = content, __newindex = refuse })
  sealed[front] = content
  return front
end

-- Addresses differ from run to run; names of tables and functions must not. Numbered
-- from 1 in each script, in the order in which they are asked for.
local names, named = nil, 0

-- redis ---------------------------------------------------------------------

-- `redis.call` is put here by each run. It is not a Lua function, because
-- `return redis.call(…)` would then replace the frame that an error is to name.
local redis = { sha1hex = host.sha1hex }

-- What our own functions raise is opaque here; this is its text.
local function problem_of(raised)
  if type(raised) == 'userdata' then
    local text = host.library_text(raised)
    if text then return text end
    local counted
    text, counted = host.text_of(raised)
    return { err = text, ignore_error_stats_update = counted }
  end
  return raised
end

function redis.pcall(...)
  local ok, reply = pcall(redis.call, ...)
  if ok then return reply end
  return problem_of(reply)
end

local WRONG = 'wrong number or type of arguments'

local function one_string(...)
  local text = ...
  return select('#', ...) == 1 and type(text) == 'string' and text or nil
end

-- '-CODE text' keeps its code; other text gets ERR, unless it has two words, whose
-- first is taken for a code.
function redis.error_reply(...)
  local text = one_string(...)
  if not text then return { err = 'ERR ' .. WRONG } end
  return { err = host.error_text(text) }
end

function redis.status_reply(...)
  local text = one_string(...)
  if not text then return { err = 'ERR ' .. WRONG } end
  return { ok = text }
end

function redis.log(...)
  local level = ...
  if select('#', ...) < 2 then
    error({ err = 'ERR redis.log() requires two arguments or more.' }, 0)
  end
  if type(level) ~= 'number' then
    error({ err = 'ERR First argument must be a number (log level).' }, 0)
  end
  if level < 0 or level > 3 then error({ err = 'ERR Invalid debug level.' }, 0) end
end

function redis.setresp(...)
  local version = ...
  if select('#', ...) ~= 1 then
    error({ err = 'ERR redis.setresp() requires one argument.' }, 0)
  end
  if version ~= 2 and version ~= 3 then
    error({ err = 'ERR RESP version must be 2 or 3.' }, 0)
  end
  host.setresp(version)
end

function redis.set_repl(...)
  local flags = ...
  if select('#', ...) ~= 1 then
    error({ err = 'ERR redis.set_repl() requires two arguments.' }, 0)
  end
  if type(flags) ~= 'number' or flags < 0 or flags > 3 or flags % 1 ~= 0 then
    error({ err = 'ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.' }, 0)
  end
  host.set_repl(flags)
end

function redis.replicate_commands()
  return true
end

function redis.acl_check_cmd()
  return true
end

function redis.breakpoint()
  return false
end

function redis.debug() end

for name, value in next, constants do
  redis[name] = value
end

-- math.random ---------------------------------------------------------------
-- Redis' own generator, which belongs to the server.

math.randomseed = function(seed)
  host.randomseed(seed)
end

math.random = function(...)
  local count, low, high = select('#', ...), ...
  local drawn = host.random()
  if count == 0 then return drawn end
  if count > 2 then error('wrong number of arguments', 2) end
  if count == 1 then low, high = 1, low end
  if type(low) ~= 'number' or type(high) ~= 'number' then
    error('bad argument to \'random\' (number expected)', 2)
  end
  if low > high then error('bad argument to \'random\' (interval is empty)', 2) end
  return floor(drawn * (high - low + 1)) + low
end

-- Ours: of nothing it makes nothing at once, where C would count for seconds.
string.rep = host.repetition(string.rep)

-- cjson ---------------------------------------------------------------------

local cjson = {
  encode = host.json_encode, decode = host.json_decode, null = host.json_null,
  _NAME = 'cjson', _VERSION = '2.1.0',
}

-- What it can be told is seldom asked for, and made then.
setmetatable(cjson, {
  __index = function(_, name)
    local settings = host.json_settings()
    setmetatable(cjson, nil)
    for setter, work in next, settings do rawset(cjson, setter, work) end
    return rawget(cjson, name)
  end,
})

-- the base library ------------------------------------------------------------

local environment = {}

-- An error table with a text is caught as its text.
local function caught(ok, first, ...)
  if ok then return ok, first, ... end
  first = problem_of(first)
  if type(first) == 'table' and type(rawget(first, 'err')) == 'string' then
    return ok, rawget(first, 'err')
  end
  return ok, first, ...
end

local function handled(handler, ok, first, ...)
  if ok then return ok, first, ... end
  local _, result = pcall(handler, problem_of(first))
  return false, result
end

local function text_of(value)
  local kind = type(value)
  local meta = getmetatable(value)
  if kind == 'string' or kind == 'number' or kind == 'boolean' or kind == 'nil'
    or (type(meta) == 'table' and rawget(meta, '__tostring')) then
    return tostring(value)
  end
  if kind == 'userdata' then return tostring(value) end
  if not names then names = setmetatable({}, { __mode = 'k' }) end
  local name = names[value]
  if not name then
    named = named + 1
    name = format('%s: 0x%012x', kind, named)
    names[value] = name
  end
  return name
end

local function load_text(source, name)
  if type(source) ~= 'string' then
    error('bad argument #1 to \'loadstring\' (string expected)', 3)
  end
  if find(source, '^\27') then return nil, 'binary chunks are not loaded' end
  local chunk, problem = loadstring(source, name)
  if chunk then setfenv(chunk, environment) end
  return chunk, problem
end

local base = {
  _VERSION = _VERSION, assert = assert, error = error, ipairs = ipairs, next = next,
  pairs = function(container)
    return next, sealed[container] or container, nil
  end,
  pcall = function(...) return caught(pcall(...)) end,
  rawequal = rawequal,
  rawget = function(container, key) return rawget(sealed[container] or container, key) end,
  rawset = function(container, key, value)
    if sealed[container] then error(READ_ONLY, 0) end
    return rawset(container, key, value)
  end,
  select = select,
  getmetatable = getmetatable,
  setmetatable = function(container, meta)
    if sealed[container] then error(READ_ONLY, 0) end
    return setmetatable(container, meta)
  end,
  tonumber = tonumber,
  tostring = function(...)
    if select('#', ...) == 0 then error('bad argument #1 to \'tostring\' (value expected)', 2) end
    return text_of((...))
  end,
  type = type, unpack = unpack,
  -- The handler runs once the stack is unwound: Lua would run it inside the hook of
  -- the budget, where nothing can stop it. Without `debug` it cannot tell.
  xpcall = function(work, handler)
    return handled(handler, pcall(work))
  end,
  loadstring = function(source, name) return load_text(source, name) end,
  load = function(pieces, name)
    local source = {}
    while true do
      local piece = pieces()
      if piece == nil or piece == '' then break end
      insert(source, piece)
    end
    return load_text(table.concat(source), name or '=(load)')
  end,
  collectgarbage = function(what)
    if what == 'count' then return 40 end
    return 0
  end,
  gcinfo = function() return 40 end,
  _G = environment,
}

-- Library functions that would change a sealed table through the back door see its
-- empty front instead, and what they put there shadows nothing of other scripts:
for _, name in ipairs({ 'insert', 'remove', 'sort', 'foreach', 'foreachi' }) do
  local original = table[name]
  table[name] = function(container, ...)
    if sealed[container] then error(READ_ONLY, 0) end
    return original(container, ...)
  end
end

for name, value in next, base do world[name] = value end
for name, library in next, { redis = redis, string = string, table = table, math = math, coroutine = coroutine, cjson = cjson } do
  world[name] = seal(library)
end
getmetatable('').__index = world.string
sealed[getmetatable('')] = getmetatable('')
getmetatable('').__metatable = seal({ __index = world.string })

setmetatable(world, {
  __index = function(_, name)
    -- Libraries that few scripts use are made for those who do.
    local library = type(name) == 'string' and host.library(name)
    if library then
      library = seal(library)
      rawset(world, name, library)
      return library
    end
    error('Script attempted to access nonexistent global variable \'' .. text_of(name) .. '\'', 2)
  end,
})
setmetatable(environment, { __index = world, __newindex = refuse, __metatable = seal({}) })
sealed[environment] = world

-- the entry -------------------------------------------------------------------

-- Says where an error happened, as Redis does. Touches the script's own tables only
-- rawly: no hook can stop what runs here.
local function handler(problem)
  problem = problem_of(problem)
  local text, counted
  if type(problem) == 'table' then
    text = rawget(problem, 'err')
    counted = rawget(problem, 'ignore_error_stats_update')
  else
    text = 'ERR ' .. tostring(problem)
  end
  local source, line = locate()
  return { err = text, source = source, line = line, ignore_error_stats_update = counted }
end

-- Nothing has handled an error when memory is short.
local function finish(ok, result)
  names = nil
  if ok then return true, result end
  if type(result) == 'table' then
    return false, result.err, result.source, result.line, result.ignore_error_stats_update
  end
  return nil, result
end

local function compile(source)
  -- What looks compiled is not text, and is told so by the parser.
  if find(source, '^\27') then source = ' ' .. source end
  local chunk, problem = loadstring(source, '@user_script')
  if chunk then setfenv(chunk, environment) end
  return chunk, problem
end

-- The first `count` of what follows are keys, the others arguments. Made into tables
-- here: that costs a third of what it costs outside.
local function split(count, ...)
  if count == 0 then return {}, { ... } end
  local keys, arguments = { ... }, {}
  for index = count + 1, #keys do
    arguments[index - count] = keys[index]
    keys[index] = nil
  end
  return keys, arguments
end

local function enter(script, keys, arguments)
  names, named = nil, 0
  rawset(world, 'KEYS', keys)
  rawset(world, 'ARGV', arguments)
  return finish(xpcall(script, handler))
end

-- Called with a script, its `redis.call`, and either a number of keys and strings, or two
-- tables, when there are more strings than a function takes.
return compile, function(script, call, keys, ...)
  rawset(redis, 'call', call)
  if type(keys) == 'number' then return enter(script, split(keys, ...)) end
  return enter(script, keys, ...)
end, function(libraries)
  -- To those who run functions of libraries: what a script's entry is made of.
  local function begin(call)
    rawset(redis, 'call', call)
    names, named = nil, 0
  end
  return libraries(redis, environment, begin, split, problem_of, handler, finish)
end
