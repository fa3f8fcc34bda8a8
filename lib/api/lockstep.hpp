// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// Lockstep as a library: networks that another program trains (Session) and uses (Network). docs/user/embed.md is its
/// page. It leaves the process alone: it starts and ends neither MPI nor Kokkos, handles no signals, ends no process
/// and writes no files but those that it is told to. What goes wrong is thrown as lockstep::Error; but errors
/// of MPI itself end the ranks.

#include "api/array.hpp"
#include "api/network.hpp"
#include "api/session.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
