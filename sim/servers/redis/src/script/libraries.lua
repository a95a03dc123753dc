-- Libraries of functions (`FUNCTION LOAD`): for the engine that runs them, behind the prelude
-- and with what that lends.

local redis, environment, begin, split, problem_of, handler, finish = ...

local error, loadstring, next, pcall, rawget, rawset, select =
  error, loadstring, next, pcall, rawget, rawset, select
local setfenv, tostring, type, xpcall = setfenv, tostring, type, xpcall
local find, gsub = string.find, string.gsub

-- What the library that is being loaded has registered so far.
local registering = nil

local KNOWN_FLAGS = {
  ['no-writes'] = true, ['allow-oom'] = true, ['allow-stale'] = true, ['no-cluster'] = true,
  ['allow-cross-slot-keys'] = true,
}

local function complain(text)
  error({ err = 'ERR ' .. text }, 0)
end

-- `register_function{ … }`.
local function read_named(given)
  local entry = { flags = {} }
  if type(given) ~= 'table' then
    complain('calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).')
  end
  for key, value in next, given do
    if type(key) ~= 'string' then
      complain('named argument key given to redis.register_function is not a string')
    elseif key == 'function_name' or key == 'description' then
      if type(value) ~= 'string' then
        complain(key .. ' argument given to redis.register_function must be a string')
      end
      entry[key] = value
    elseif key == 'callback' then
      if type(value) ~= 'function' then
        complain('callback argument given to redis.register_function must be a function')
      end
      entry.callback = value
    elseif key == 'flags' then
      if type(value) ~= 'table' then
        complain('flags argument to redis.register_function must be a table representing function flags')
      end
      for index = 1, #value do
        if not KNOWN_FLAGS[value[index]] then complain('unknown flag given') end
        entry.flags[index] = value[index]
      end
    else
      complain('unknown argument given to redis.register_function')
    end
  end
  if not entry.function_name then
    complain('redis.register_function must get a function name argument')
  end
  if not entry.callback then
    complain('redis.register_function must get a callback argument')
  end
  return entry
end

local function register(...)
  local count, name, callback = select('#', ...), ...
  if count < 1 or count > 2 then
    complain('wrong number of arguments to redis.register_function')
  end
  if not registering then
    complain('redis.register_function can only be called on FUNCTION LOAD command')
  end
  local entry
  if count == 1 then
    entry = read_named(name)
  else
    if type(name) ~= 'string' then
      complain('first argument to redis.register_function must be a string')
    end
    if type(callback) ~= 'function' then
      complain('second argument to redis.register_function must be a function')
    end
    entry = { function_name = name, callback = callback, flags = {} }
  end
  if not find(entry.function_name, '^[%w_]+$') then
    complain('Library names can only contain letters, numbers, or underscores(_) and must be at least one character long')
  end
  if registering[entry.function_name] then complain('Function already exists in the library') end
  registering[entry.function_name] = entry
  registering[#registering + 1] = entry
end

-- The functions of a library; or nil, and what went wrong.
local function load_library(source)
  rawset(redis, 'register_function', register)
  if find(source, '^\27') then source = ' ' .. source end
  local chunk, problem = loadstring(source, '@user_function')
  if not chunk then return nil, 'Error compiling function: ' .. problem end
  setfenv(chunk, environment)
  registering = {}
  begin(nil)
  local ok
  ok, problem = pcall(chunk)
  local found = registering
  registering = nil
  if ok then return found end
  problem = problem_of(problem)
  if type(problem) == 'table' then problem = rawget(problem, 'err') end
  problem = gsub(tostring(problem), '^ERR ', '')
  return nil, 'Error registering functions: ' .. problem
end

local function enter(callback, keys, arguments)
  return finish(xpcall(function() return callback(keys, arguments) end, handler))
end

-- Loads a library; and runs a function, called as a script's entry is.
return load_library, function(callback, call, keys, ...)
  begin(call)
  if type(keys) == 'number' then return enter(callback, split(keys, ...)) end
  return enter(callback, keys, ...)
end
