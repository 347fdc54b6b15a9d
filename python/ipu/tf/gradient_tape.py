def is_recording(): return False
