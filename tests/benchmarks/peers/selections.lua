-- Unique selection requests for wrk. Arguments: salt, selections per request, tenants,
-- features, discipline. Prints one line of JSON at the end.
local number, salt, batch, n_tenants, discipline = 0, "", 1, 1, ""
local contexts, n_contexts = {}, 64

function init(args)
  salt, batch, n_tenants = args[1], tonumber(args[2]), tonumber(args[3])
  local n_features = tonumber(args[4])
  discipline = args[5]
  math.randomseed(0)
  for i = 0, n_contexts - 1 do
    local pairs_of = {}
    for j = 0, n_features - 1 do
      -- About normal: a sum of twelve uniform numbers.
      local value = -6
      for _ = 1, 12 do value = value + math.random() end
      pairs_of[#pairs_of + 1] = string.format('"x%d":%.6f', j, value)
    end
    contexts[i] = "{" .. table.concat(pairs_of, ",") .. "}"
  end
end

local function one()
  number = number + 1
  return '{"request_id":"' .. salt .. "-" .. number .. '","tenant":"t' .. number % n_tenants ..
    '","discipline":"' .. discipline .. '","unit_id":"unit-' .. number % 977 ..
    '","context":' .. contexts[number % n_contexts] .. "}"
end

function request()
  if batch == 1 then return wrk.format("POST", nil, nil, one()) end
  local items = {}
  for i = 1, batch do items[i] = one() end
  return wrk.format("POST", nil, nil, '{"items":[' .. table.concat(items, ",") .. "]}")
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"answered":%d,"failed":%d,"took_s":%.6f,"p50_ms":%.4f,"p99_ms":%.4f}\n',
    summary.requests,
    errors.status + errors.connect + errors.read + errors.write + errors.timeout,
    summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
